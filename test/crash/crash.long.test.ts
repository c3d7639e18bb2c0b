/** A short form of `npm run crash`, which kills fifty times. */
import { afterEach, expect, it } from 'vitest'
import { crash } from './crash.ts'
import { openStage, type Stage } from './stage.ts'

let stage: Stage | undefined

afterEach(async () => {
  await stage?.[Symbol.asyncDispose]()
})

it('no acknowledged event is lost and every table follows from the events, whichever process is killed while they arrive', async () => {
  stage = await openStage()
  const lines: string[] = []
  const verdict = await crash({ ...stage, kills: 6, seed: 4, say: (line) => void lines.push(line) })
  expect(verdict.faults, lines.join('\n')).toEqual([])
  expect(verdict.acknowledged).toBeGreaterThan(100)
})

it('the same for a mixture: several teams and streams, the same ids, and refetches of conflicts', async () => {
  stage = await openStage()
  const lines: string[] = []
  const options = { kills: 6, seed: 7, mixture: true, say: (line: string) => void lines.push(line) }
  const verdict = await crash({ ...stage, ...options })
  expect(verdict.faults, lines.join('\n')).toEqual([])
  expect(verdict.acknowledged).toBeGreaterThan(1_000)
})
