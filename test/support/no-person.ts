/**
 * Law 8 over the whole test suite: whatever a command of a test says is looked through for what only a person of the
 * emulator, or a text planted by a test, can have said.
 *
 * Invariant: a command that is asked for values (`api`, `--show-values`, the demo) may show them on standard output;
 * standard error, where logs and errors go, never does.
 */
import type { Ended } from './cli.ts'

/** Names, addresses, numbers and answers that the emulator makes up and nothing else contains; and planted texts. */
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

/** Commands whose results are values. */
const VALUES = new Set(['api', 'demo', 'emulator', 'patients'])

/** Returns the command's end; throws when it said what it must not, or met a defect of ours. */
export function withoutPersons(words: readonly string[], ended: Ended): Ended {
  const defect = ended.stderr.split('\n').find((each) => /(?:defect|fault) of intake-sync/.test(each))
  if (defect !== undefined) throw new Error(`${words.join(' ')} met a defect: ${defect.slice(0, 2_000)}`)
  const mayShow = VALUES.has(words[0] ?? '') || words.includes('--show-values')
  const said = mayShow ? ended.stderr : ended.output
  const line = said.split('\n').find((each) => PERSONAL.test(each))
  if (line === undefined) return ended
  throw new Error(`${words.join(' ')} says what is a person's: ${line.slice(0, 300)}`)
}
