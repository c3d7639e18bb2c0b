/**
 * A defect (an error of our own code that the pipeline worked around) fails the test file in which it occurs, unless the
 * test takes it with `takeDefects`.
 */
import { DEFECTS, type Defect } from '../../src/warehouse/defects.ts'
import { whenFileEnds } from './when-file-ends.ts'

const seen: Defect[] = []

DEFECTS.subscribe((message) => {
  seen.push(message as Defect)
})

/** The defects so far, for a test that expects them. */
export function takeDefects(): readonly Defect[] {
  return seen.splice(0)
}

whenFileEnds(() => {
  const defects = takeDefects()
  if (defects.length === 0) return
  const lines = defects.map(({ kind, frames }) => `${kind} ${frames.slice(0, 3).join(' ')}`)
  throw new Error(`a test met defects of intake-sync:\n${lines.join('\n')}`)
})
