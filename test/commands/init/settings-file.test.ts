/** The settings file: what it says, what changes in it, and what is shown of that. */
import { readdirSync, readFileSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseEnv } from 'node:util'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { quoted } from '../../../src/commands/init/deploy.ts'
import {
  differences,
  differenceText,
  merged,
  readSettingsFile,
  writeSettingsFile,
} from '../../../src/commands/init/settings-file.ts'
import { teamsFileSchema } from '../../../src/config/file.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const folder = makeFolder('settings-')
afterAll(() => removeFolder(folder))
const file = join(folder, 'settings.env')

it('later settings count more, and NAME and NAME_FILE replace one another', () => {
  const under = { INTAKE_API_KEY: 'a', INTAKE_API_SECRET_FILE: '/s', INTAKE_TEAM: 'north' }
  expect(merged(under, { INTAKE_API_KEY_FILE: '/k', INTAKE_API_SECRET: 'b' })).toEqual({
    ...{ INTAKE_TEAM: 'north', INTAKE_API_KEY_FILE: '/k', INTAKE_API_SECRET: 'b' },
  })
  expect(merged(under, {})).toEqual(under)
})

it('a difference is added, removed or changed; what is the same is none', () => {
  expect(differences({ A: '1', B: '2', C: '3' }, { B: '2', C: '4', D: '5' })).toEqual([
    { name: 'A', before: '1', after: null },
    { name: 'C', before: '3', after: '4' },
    { name: 'D', before: null, after: '5' },
  ])
})

it.each([
  [{ name: 'INTAKE_TEAM', before: null, after: 'north' }, '+ INTAKE_TEAM=north', '+ teams.0.name: north'],
  [{ name: 'INTAKE_TEAM', before: 'a', after: null }, '- INTAKE_TEAM=a', '- teams.0.name: a'],
  [{ name: 'LOG_LEVEL', before: 'a', after: 'b' }, '~ LOG_LEVEL=a → b', '~ settings.LOG_LEVEL: a → b'],
  [
    { name: 'INTAKE_API_KEY', before: 'old-canary', after: 'canary' },
    ...['~ INTAKE_API_KEY=(hidden) → (hidden)', '~ teams.0.apiKey: (hidden) → (hidden)'],
  ],
  [
    { name: 'INTAKE_API_KEY_FILE', before: null, after: '/k' },
    ...['+ INTAKE_API_KEY_FILE=/k', '+ teams.0.apiKey: file:/k'],
  ],
] as const)('%j is shown as %s', (difference, asLine, inJson) => {
  expect([differenceText(difference, 'x.env'), differenceText(difference, 'x.json')]).toEqual([
    asLine,
    inJson,
  ])
})

describe('lines', () => {
  it('change in their place, whatever is around them; the others stay as they are', () => {
    const before =
      '# mine\n\nexport  INTAKE_TEAM = north # here\nINTAKE_TEAMS=x\n  LOG_LEVEL=info\nEMPTY=\nINTAKE_CRON=off'
    writeFileSync(file, before, { mode: 0o644 })
    expect(readSettingsFile(file)).toMatchObject({ INTAKE_TEAMS: 'x', LOG_LEVEL: 'info', INTAKE_CRON: 'off' })
    expect(readSettingsFile(file)).not.toHaveProperty('EMPTY')
    writeSettingsFile(file, [
      { name: 'INTAKE_TEAM', before: 'north', after: 'south 1' },
      { name: 'LOG_LEVEL', before: 'info', after: null },
      { name: 'INTAKE_TIMEZONE', before: null, after: 'Europe/Berlin' },
      { name: 'INTAKE_CONFIG', before: null, after: null },
    ])
    expect(readFileSync(file, 'utf8')).toBe(
      "# mine\n\nINTAKE_TEAM='south 1'\nINTAKE_TEAMS=x\nEMPTY=\nINTAKE_CRON=off\nINTAKE_TIMEZONE=Europe/Berlin\n",
    )
    expect(statSync(file).mode & 0o777).toBe(0o600)
    // The second time, after the line end that the first one wrote.
    writeSettingsFile(file, [{ name: 'INTAKE_SWEEP_DAYS', before: null, after: '3' }])
    expect(readFileSync(file, 'utf8')).toMatch(/\nINTAKE_TIMEZONE=Europe\/Berlin\nINTAKE_SWEEP_DAYS=3\n$/)
  })

  it.each(['a$b', 'a b', '#x', '"x"', 'p@ss:w/o%rd,=+-', '\\', '`id`'])(
    'the value %s is read back as it is',
    (value) => {
      writeSettingsFile(file, [{ name: 'INTAKE_TEAM', before: null, after: value }])
      expect(parseEnv(readFileSync(file, 'utf8')).INTAKE_TEAM).toBe(value)
    },
  )

  it.each(["it's", 'two\nlines', 'a\rb'])('%j cannot be written, and the file stays as it is', (value) => {
    const before = readFileSync(file, 'utf8')
    const write = () => writeSettingsFile(file, [{ name: 'INTAKE_API_KEY', before: null, after: value }])
    expect(write).toThrow(
      expect.objectContaining({
        ...{ variable: 'INTAKE_API_KEY', code: 'setting_invalid' },
        message: 'INTAKE_API_KEY holds a quote or a line end, which not every reader of the file understands',
        hint: 'put the value into a file of its own, and set INTAKE_API_KEY_FILE to its path',
      }),
    )
    expect(readFileSync(file, 'utf8')).toBe(before)
  })

  it('a draft that an earlier init left is replaced, and nothing else is left', () => {
    const folder = makeFolder('drafts-')
    onTestFinished(() => removeFolder(folder))
    const own = join(folder, 'own.env')
    writeFileSync(`${own}.new`, 'of an earlier one', { mode: 0o644 })
    writeSettingsFile(own, [{ name: 'LOG_LEVEL', before: null, after: 'info' }])
    expect(readdirSync(folder)).toEqual(['own.env'])
    expect([statSync(own).mode & 0o777, readSettingsFile(own)]).toEqual([0o600, { LOG_LEVEL: 'info' }])
  })

  it('a JSON file has the schema of this version next to it, also where nothing else differs', () => {
    const folder = makeFolder('schema-')
    onTestFinished(() => removeFolder(folder))
    const [own, schema] = ['own.json', 'intake-sync.schema.json'].map((name) => join(folder, name)) as [
      ...[string, string],
    ]
    writeFileSync(schema, 'of an older version')
    writeSettingsFile(own, [])
    const text = `${JSON.stringify(teamsFileSchema(), null, 2)}\n`
    expect([readdirSync(folder), readFileSync(schema, 'utf8')]).toEqual([['intake-sync.schema.json'], text])
    utimesSync(schema, 1, 1)
    writeSettingsFile(own, [{ name: 'LOG_LEVEL', before: null, after: 'info' }])
    expect(statSync(schema).mtimeMs).toBe(1_000)
    expect(readFileSync(own, 'utf8')).toBe(
      `{\n  "$schema": "./intake-sync.schema.json",\n  "settings": {\n    "LOG_LEVEL": "info"\n  },\n  "teams": [\n    {}\n  ]\n}\n`,
    )
  })

  it('a new file begins with what it is', () => {
    const fresh = join(folder, 'fresh.env')
    expect(readSettingsFile(fresh)).toEqual({})
    writeSettingsFile(fresh, [])
    expect(() => statSync(fresh)).toThrow('ENOENT')
    writeSettingsFile(fresh, [{ name: 'LOG_LEVEL', before: null, after: 'info' }])
    expect(readFileSync(fresh, 'utf8')).toMatch(/^# Settings of intake-sync.*\nLOG_LEVEL=info\n$/)
  })
})

it('a file that Windows saved with a byte order mark is read as without it, and loses it with the next change', () => {
  writeFileSync(file, '\ufeffINTAKE_TEAM=north\r\nLOG_LEVEL=info\r\n')
  expect(readSettingsFile(file)).toEqual({ INTAKE_TEAM: 'north', LOG_LEVEL: 'info' })
  writeSettingsFile(file, [{ name: 'INTAKE_CRON', before: null, after: 'off' }])
  expect(readFileSync(file, 'utf8')).toMatch(/^INTAKE_TEAM=north\r?\n/)
  const json = join(folder, 'settings.json')
  writeFileSync(
    json,
    `\ufeff${JSON.stringify({ settings: { LOG_LEVEL: 'info' }, teams: [{ name: 'north' }] })}`,
  )
  expect(readSettingsFile(json)).toEqual({ INTAKE_TEAM: 'north', LOG_LEVEL: 'info' })
  writeSettingsFile(json, [{ name: 'LOG_LEVEL', before: 'info', after: 'warn' }])
  expect(JSON.parse(readFileSync(json, 'utf8'))).toMatchObject({
    ...{ settings: { LOG_LEVEL: 'warn' }, teams: [{ name: 'north' }] },
  })
})

it.each(['/srv/plain.env', "/srv/it's here", '/srv/a b', '/srv/$HOME', 'x*'])(
  'a shell reads %s as one word',
  (text) => {
    const word = quoted(text)
    expect(word === text).toBe(/^[\w./-]+$/.test(text))
    if (word !== text)
      expect(word.replaceAll("'\\''", '\u0000').slice(1, -1).replaceAll('\u0000', "'")).toBe(text)
  },
)
