/** The samples that benchmarks load, by the name of their stream: a child process gets only this name. */
import type { Sample } from './pages.ts'
import { patientSample } from './patient-pages.ts'
import { responseSample } from './response-pages.ts'

const SAMPLES: readonly Sample[] = [patientSample, responseSample]

export function sampleNamed(name: string): Sample {
  const sample = SAMPLES.find(({ stream }) => stream.name === name)
  if (sample === undefined) throw new Error(`no sample of ${name}`)
  return sample
}
