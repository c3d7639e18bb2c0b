/** Generic code names no stream: what the pipeline knows of a resource is in its declaration, and nowhere else. */
import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, test } from 'vitest'
import { ALL_STREAMS } from '../../src/streams/catalogue.ts'

const src = resolve(import.meta.dirname, '../../src')

/** Where names belong: the declarations, the typed client's methods, one per resource, and the service itself. */
const OWN = ['streams/', 'api/resources/', 'api/paths.ts', 'emulator/', 'index.ts']

/** Code about the content of certain streams, each with the reason why no declaration could say it. */
const ABOUT: Readonly<Record<string, string>> = {
  'analytics/': 'classification and wide views are about the questions of forms and the answers to them',
  'commands/analysts/': 'instruments are scored from the questions of forms',
  'commands/demo/': 'a tour of the emulator’s data, which it queries by name',
  'commands/manage/patients.ts': 'the service’s batch upload, which exists for patients only',
  'commands/manage/upload.ts': 'the columns of the batch upload of patients',
  'commands/run/emulator.ts': 'the options of the emulator',
  'console/pages/insights.ts': 'charts of forms, over the analysts’ views',
  'console/pages/questions.ts': 'decides which answers to the questions of forms and exports analysts see',
  'commands/manage/classify-actions.ts': 'prints the questions of forms',
  'commands/manage/classify-file.ts': 'the columns of the file of decisions about the questions of forms',
  'commands/analysts/instruments.ts': 'says how many forms ask an instrument',
  'commands/manage/erase.ts': 'the command is called `erase patient`',
  'core/error-codes.ts': 'the explanation of an unknown patient names the table to look in',
  'load/exports/': 'the format and the tables of the files of exports',
  'operate/erase/find.ts': 'looks for the patient’s id in the rows of files',
  'operate/erase/identities.ts': 'looks for the patient in the rows of files',
  'operate/erase/remove-export-rows.ts': 'rewrites the files of exports',
  'operate/health/silence-signs.ts': 'compares the inbox with the service’s own log of deliveries',
  'reconcile/replay-files.ts': 'the tables of the files of exports',
  'reconcile/verify/channels.ts': 'compares two certain streams: the rows of exports and responses',
  'reconcile/verify/store.ts': 'stores the differences of the two, by response',
  'reconcile/verify/repair.ts': 'the tables of the files of exports',
}

const names = ALL_STREAMS.flatMap(({ name, source }) => [name, ...(source === undefined ? [] : [source])])
const tables = ALL_STREAMS.flatMap(({ table, children, reading }) => [
  table,
  ...children.map((child) => child.table),
  ...(reading?.kind === 'files' ? reading.tables.map((file) => file.table) : []),
])
const fields = ALL_STREAMS.flatMap(({ settledBy, objects = [], safeNames = [], children }) => [
  ...(settledBy === undefined ? [] : [settledBy]),
  ...objects,
  ...safeNames.filter((name) => name.includes('_')),
  ...children.map(({ parent }) => parent),
])

/** A quoted name or field, a table of schema `intake`, an import of one declaration. */
const NAMING = new RegExp(
  [
    `(['"\`])(?:${[...names, ...fields].join('|')})\\1`,
    `'(?:${fields.join('|')})'`,
    `\\b(?:intake|expected)[._](?:${tables.join('|')})\\b`,
    `/streams/(?:${ALL_STREAMS.map(({ name }) => name.replaceAll('_', '-')).join('|')})\\.ts`,
  ].join('|'),
  'g',
)

const withoutComments = (text: string) =>
  text.replace(/\/\*[\s\S]*?\*\//g, (comment) => comment.replace(/[^\n]/g, '')).replace(/^\s*\/\/.*$/gm, '')

function namesIn(file: string): readonly string[] {
  const lines = withoutComments(readFileSync(join(src, file), 'utf8')).split('\n')
  return lines.flatMap((line, at) => (line.match(NAMING) ?? []).map((found) => `${file}:${at + 1} ${found}`))
}

const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts'))
  .sort()
const among = (places: readonly string[]) => (file: string) => places.some((place) => file.startsWith(place))

test('generic code names no stream, no table of one and no field that a declaration owns', () => {
  const generic = files.filter((file) => !among([...OWN, ...Object.keys(ABOUT)])(file))
  expect(generic.length).toBeGreaterThan(200)
  expect(generic.flatMap(namesIn)).toEqual([])
})

describe('an exception is one only while it is needed', () => {
  test.each(Object.entries(ABOUT))('%s: %s', (place) => {
    expect(files.filter(among([place])).flatMap(namesIn)).not.toEqual([])
  })
})
