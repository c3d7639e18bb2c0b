/**
 * What commands print, on which output, and their exit codes, in a warehouse of fixed content (recorded-world.ts): as text and
 * as JSON, on a terminal, of each team, of a removed and an unknown one, and the second time.
 *
 * Each file of test/commands/recorded has commands and what they print, in lines that begin with `! ` on standard error.
 * `$ 60|runs` is `runs` on a terminal of 60 columns, `'…'` one word. After an intended change, or to add a command, run
 * `npx vitest run test/commands/recorded.test.ts -u`, and read the difference before you commit it.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { makeLogin } from '../analytics/logins.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'
import { runCommand } from '../support/run-command.ts'
import { FILES, openRecordedWorld } from './recorded-world.ts'

const RECORDED = join(import.meta.dirname, 'recorded')

let folder: string

beforeAll(() => {
  folder = makeFolder('recorded-')
  for (const [name, text] of Object.entries(FILES)) writeFileSync(join(folder, name), text)
})
afterAll(() => removeFolder(folder))

/** Values that change from run to run are a word in capitals; the widths of columns follow it. */
function stable(line: string, said: string, login: string): string {
  const text = said
    .replaceAll(/\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|\+00:00)?/g, (time) => (/^2026-01/.test(time) ? time : 'NOW'))
    .replaceAll(
      /\b\d{4,} (?:s|h \d+ min)\b|(?<=NOW +|^run 7, \w+: \w+ \()\d+(?:\.\d)? (?:s|min)(?: \d+ s)?/g,
      'DURATION',
    )
    .replaceAll(/("\w+_seconds": )[\d.]+/g, '$1DURATION')
    .replaceAll(/("seconds": )[\d.]+/g, (whole, name) =>
      /replay|show 7/.test(line) ? `${name}DURATION` : whole,
    )
    .replaceAll(/(database user |"canceled_by": ")\w+/g, '$1USER')
    .replaceAll(/file:\S+\/docs\//g, 'file:DOCS/')
    .replaceAll(folder, 'FOLDER')
    .replaceAll(login, 'LOGIN')
  return /DURATION|NOW|LOGIN/.test(text) && !text.startsWith('{') ? text.replaceAll(/ {2,}/g, '  ') : text
}

it.each(readdirSync(RECORDED))(
  '%s: each command prints what it did before, where it did, and ends as it did',
  async (file) => {
    await using world = await openRecordedWorld()
    const { name: login } = await makeLogin(world.url, 'pg_monitor')
    const path = join(RECORDED, file)
    const [title] = readFileSync(path, 'utf8').split('\n', 1)
    let text = `${title}\n`
    for (const [line, columns, command] of readFileSync(path, 'utf8').matchAll(/^\$ (?:(\d+)\|)?(.*)$/gm)) {
      const words = [...command!.matchAll(/'([^']*)'|(\S+)/g)].map(([, quoted, plain]) =>
        (quoted ?? plain!).replace('LOGIN', login).replace('FOLDER', folder).replaceAll('\\x1b', '\u001b'),
      )
      const ended = await runCommand(
        words,
        world.env,
        columns === undefined ? {} : { columns: Number(columns) },
      )
      const stderr = ended.stderr.replaceAll(/^(?=.)/gm, '! ')
      text += `\n${line}\n${stable(line, ended.stdout + stderr, login)}exit code ${ended.code}\n`
    }
    await expect(text).toMatchFileSnapshot(path)
  },
)
