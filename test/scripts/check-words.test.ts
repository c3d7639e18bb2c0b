/** `npm run check` keeps private words out: scripts/check-words.mjs finds them, and accepts what standard English needs. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'

const script = resolve(import.meta.dirname, '../../scripts/check-words.mjs')

function check(...paths: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...paths], { encoding: 'utf8' })
  expect(stderr).toBe('')
  return { status, lines: stdout.split('\n').filter((line) => line !== '') }
}

/** Checks a folder with these files. */
function checkFiles(files: Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(tmpdir(), 'intake-sync-words-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  for (const [name, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  return check(folder)
}

/** One line of a file per text. */
const checkLines = (texts: readonly string[]) => checkFiles({ 'planted.md': `${texts.join('\n')}\n` })

test('the files that are checked contain no private word', () => {
  expect(check()).toEqual({ status: 0, lines: [] })
})

const PRIVATE = [
  ['A row is held as submitted.', 'held', 'stored'],
  ['An error was told to nobody.', 'told', 'reports'],
  ['The header tells the zone.', 'tells', 'reports'],
  ['The name bears a number.', 'bears', 'has'],
  ['A later run mended it.', 'mended', 'fix, repair'],
  ['The event was set aside.', 'set aside', 'dead-letter'],
  ['It sets the event aside.', 'sets the event aside', 'dead-letter'],
  ['One letter waits.', 'letter', 'dead letter'],
  ['How it came about.', 'came about', 'occur'],
  ['The list, of which a part is new.', 'of which', 'a new sentence'],
  ['A fetch beside a page.', 'beside', 'during'],
  ['The event was thin.', 'thin', 'partial'],
  ['A steady list.', 'steady', 'stable'],
  ['Records are sifted first.', 'sifted', 'skip unchanged'],
  ['The ledger of ids.', 'ledger', 'seen ids'],
  ['The desk of letters and digits.', 'desk', 'what it does'],
  ['It rings the bell.', 'bell', 'notifier'],
  ['A contested record.', 'contested', 'conflicting'],
  ['Doubt is resolved by a fetch.', 'Doubt', 'conflict'],
  ['It holds up the drain.', 'holds up', 'delay'],
  ['What was read is loaded.', 'What was', 'a noun'],
  ['- Who knows SQL reads the views.', 'Who knows', 'a noun'],
  ['const LONGEST_PAUSE = 5', 'LONGEST_PAUSE', 'MAX_'],
] as const

test('finds each private word, with its file, its line and what to write instead', () => {
  const { status, lines } = checkLines(PRIVATE.map(([text]) => text))
  expect(status).toBe(1)
  expect(lines.slice(0, -1)).toEqual(
    PRIVATE.map(([, found, write], at) =>
      expect.stringMatching(new RegExp(`planted\\.md:${at + 1}: "${found}": write .*${write}`)),
    ),
  )
})

test('accepts standard English', () => {
  const texts = [
    'A lock is held until the commit; a held lock blocks nobody.',
    'One error document: {"error": {"code", "message", "mend"}}.',
    'It becomes a dead letter; dead letters wait, and dead_letters counts them.',
    'Names have letters, digits and dots; the first letter is a capital letter.',
    'Five runs, each of which ended; a steady state; a thin wrapper.',
    'What is wrong? Who reads the views?',
    'Find out what is wrong. The table `intake_raw.set_aside` stores payloads.',
    'Strengthen, seldom, bellow, investigate, within, tellurium, Bearer, beheld, newsletter.',
  ]
  expect(checkLines(texts)).toEqual({ status: 0, lines: [] })
})

test('accepts names that cannot change, and nothing else with their words', () => {
  const texts = ["reason: 'contested'", 'set told = null', 'code held_by_another_run', 'a contested record']
  expect(checkLines(texts).lines).toEqual([
    expect.stringMatching(/planted\.md:4: "contested"/),
    expect.stringMatching(/^1 private words/),
  ])
})

test('finds words in identifiers, and phrases that continue on the next line of a comment', () => {
  const source = '/**\n * An event that was set\n * aside.\n */\nconst isHeld = told_once.heldRow\n'
  expect(checkFiles({ 'planted.ts': source }).lines.slice(0, -1)).toEqual([
    expect.stringMatching(/planted\.ts:2: "set aside"/),
    expect.stringMatching(/planted\.ts:5: "Held"/),
    expect.stringMatching(/planted\.ts:5: "told"/),
    expect.stringMatching(/planted\.ts:5: "held"/),
  ])
})

test('checks whole folders, and skips files that are not text', () => {
  const { lines } = checkFiles({
    'deep/run': '# told\n',
    'deep/one.sql': '-- told\n',
    'deep/image.png': 'told\n',
  })
  expect(lines.slice(0, -1)).toEqual([
    expect.stringMatching(/deep\/one\.sql:1: "told"/),
    expect.stringMatching(/deep\/run:1: "told"/),
  ])
})
