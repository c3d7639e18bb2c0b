/**
 * Law 8 over the whole test suite: the output of every command in a test is searched for text that belongs only to a
 * person of the emulator or was planted by a test.
 *
 * Invariant: commands that print values on request (`api`, `psql`, `--show-values`, the demo) may show them on standard output.
 * Standard error, which receives logs and errors, never shows them.
 */
import type { Ended } from './cli.ts'

/** Names, addresses, numbers and answers that the emulator generates and nothing else contains; and planted texts. */
const PERSONAL = new RegExp(
  [
    ...['Kanarienvogel', 'Zilpzalp'],
    ...[
      "(?:patient|family\\+kids|p\\.q|o'neil|client_)\\d+@(?:example\\.com|example\\.org|mail\\.example\\.net)",
    ],
    ...['Władysława', 'Þóra', 'Œdipa', 'Siobhán', "Ma'ayan", 'Šimůnek', 'Castellanos de la Fuente', 'Nuʻu'],
    ...['Παπαδόπουλος', 'Иванова', '\\+44 20 7946 \\d', '\\+1 \\(555\\) \\d', 'XJ-99/4', 'penicillin; sulfa'],
    ...['Befund März', 'Kopfschmerzen; Übelkeit', 'Took 2 x 500 mg', 'Martin Luther King Jr\\. Blvd'],
    ...['Praxis Müller & Söhne', 'data:image/png;base64'],
  ].join('|'),
  'i',
)

/** Commands whose output is values. */
const VALUES = new Set(['api', 'demo', 'emulator', 'patients', 'psql'])

/** Returns the finished command; throws if its output contains health data or it met a defect of this project. */
export function withoutPersons(words: readonly string[], ended: Ended): Ended {
  const defect = ended.stderr.split('\n').find((each) => /(?:defect|fault) of intake-sync/.test(each))
  if (defect !== undefined) throw new Error(`${words.join(' ')} met a defect: ${defect.slice(0, 2_000)}`)
  const mayShow = VALUES.has(words[0] ?? '') || words.includes('--show-values')
  const said = mayShow ? ended.stderr : ended.output
  const line = said.split('\n').find((each) => PERSONAL.test(each))
  if (line === undefined) return ended
  throw new Error(`${words.join(' ')} says what is a person's: ${line.slice(0, 300)}`)
}
