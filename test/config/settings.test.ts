/** Settings come from the environment first, then from one settings file that nobody else could have written. */
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import {
  durationShape,
  printableKey,
  readEnvFile,
  settingOfText,
  settingsOf,
  settingsOfDocument,
  withEnvFile,
} from '../../src/config/settings.ts'

const base = mkdtempSync(join(tmpdir(), 'intake-sync-settings-'))
afterAll(() => rmSync(base, { recursive: true, force: true }))

let folders = 0
/** A folder with these files, each by its name. */
function folderOf(files: Readonly<Record<string, unknown>>, mode = 0o600): string {
  const folder = join(base, String(++folders))
  mkdirSync(folder)
  for (const [name, content] of Object.entries(files)) {
    const path = join(folder, name)
    writeFileSync(path, typeof content === 'string' ? content : JSON.stringify(content))
    chmodSync(path, mode)
  }
  return folder
}

const ENV = 'intake-sync.env'
const JSON_FILE = 'intake-sync.json'

describe('the settings file', () => {
  test('is the one that INTAKE_ENV_FILE names, else intake-sync.env, else intake-sync.json of the working directory', () => {
    const folder = folderOf({ [ENV]: 'LOG_LEVEL=env', [JSON_FILE]: {}, other: 'LOG_LEVEL=other' })
    const named = join(folder, 'other')
    expect(readEnvFile({ INTAKE_ENV_FILE: named }, base)).toEqual({
      path: named,
      values: { LOG_LEVEL: 'other' },
    })
    expect(readEnvFile({ INTAKE_ENV_FILE: 'other' }, folder)?.path).toBe(named)
    expect(readEnvFile({}, folder)).toEqual({ path: join(folder, ENV), values: { LOG_LEVEL: 'env' } })
    expect(readEnvFile({ INTAKE_ENV_FILE: '' }, folder)?.path).toBe(join(folder, ENV))
    expect(readEnvFile({}, folderOf({ [JSON_FILE]: {} }))?.path).toMatch(/intake-sync\.json$/)
    expect(readEnvFile({}, folderOf({}))).toBeNull()
  })

  test('is not the one of the working directory with teams where INTAKE_CONFIG names another', () => {
    const both = folderOf({ [ENV]: 'A=b', [JSON_FILE]: {} })
    expect(readEnvFile({ INTAKE_CONFIG: '/teams.json' }, both)?.path).toBe(join(both, ENV))
    expect(readEnvFile({ INTAKE_CONFIG: '/teams.json' }, folderOf({ [JSON_FILE]: {} }))).toBeNull()
  })

  test('must exist where it is named', () => {
    expect(() => readEnvFile({ INTAKE_ENV_FILE: 'absent' }, base)).toThrow(
      expect.objectContaining({ variable: 'INTAKE_ENV_FILE', code: 'file_unreadable' }),
    )
  })

  test.each([0o620, 0o602, 0o666])('is refused where others may write it (mode %o)', (mode) => {
    const folder = folderOf({ [ENV]: 'A=canary' }, mode)
    expect(() => readEnvFile({}, folder)).toThrow(/could have been written by another user/)
    const named = { variable: 'INTAKE_ENV_FILE', verdict: 'stop' }
    expect(() => readEnvFile({}, folder)).toThrow(expect.objectContaining(named))
  })

  test.each([0o600, 0o640, 0o644, 0o444])('may be readable by others (mode %o)', (mode) => {
    expect(readEnvFile({}, folderOf({ [ENV]: 'A=b' }, mode))?.values).toEqual({ A: 'b' })
  })

  test.runIf(process.getuid?.() === 0)('is refused where it belongs to another user', () => {
    const folder = folderOf({ [ENV]: 'A=b' })
    chownSync(join(folder, ENV), 65_534, 0)
    expect(() => readEnvFile({}, folder)).toThrow(/could have been written by another user/)
  })

  test('may belong to root, whoever reads it', () => {
    const folder = folderOf({ [ENV]: 'A=b' })
    const { uid } = statSync(folder)
    const user = vi.spyOn(process, 'getuid').mockReturnValue(uid + 1)
    onTestFinished(() => user.mockRestore())
    if (uid === 0) expect(readEnvFile({}, folder)?.values).toEqual({ A: 'b' })
    else expect(() => readEnvFile({}, folder)).toThrow(/another user/)
  })

  test('has a setting a line, and one without a value is not set', () => {
    const text = '# comment\nA=1\nexport B="two words"\nC=\n\nD=a=b\n'
    const values = { A: '1', B: 'two words', D: 'a=b' }
    expect(readEnvFile({}, folderOf({ [ENV]: text }))?.values).toEqual(values)
    // As Windows saves it.
    const foreign = `\ufeff${text.slice(text.indexOf('A')).replaceAll('\n', '\r\n')}`
    expect(readEnvFile({}, folderOf({ [ENV]: foreign }))?.values).toEqual(values)
  })
})

describe('a settings file with teams', () => {
  const valuesOf = (content: unknown, env: NodeJS.ProcessEnv = {}) => {
    const { path, values } = readEnvFile(env, folderOf({ [JSON_FILE]: content }))!
    return { ...values, ...(values.INTAKE_CONFIG === path ? { INTAKE_CONFIG: 'itself' } : {}) }
  }

  test('has its settings in the key settings, and is the file of teams', () => {
    const settings = {
      LOG_LEVEL: 'warn',
      INTAKE_API_KEY: 'file:/run/key',
      INTAKE_CRON: 'env:CRON',
      A: 'env:B',
    }
    expect(valuesOf({ settings, teams: [] }, { CRON: 'off' })).toEqual({
      LOG_LEVEL: 'warn',
      INTAKE_API_KEY_FILE: '/run/key',
      INTAKE_CRON: 'off',
      INTAKE_CONFIG: 'itself',
    })
    expect(valuesOf(`\ufeff${JSON.stringify({ settings: { A: 'b' } })}`)).toMatchObject({ A: 'b' })
  })

  test.each(['INTAKE_BASE_URL', 'INTAKE_API_KEY', 'INTAKE_API_SECRET', 'INTAKE_API_KEY_FILE'])(
    'is not the file of teams where the environment sets %s',
    (name) => {
      expect(valuesOf({ settings: { A: 'b' } }, { [name]: 'x' })).toEqual({ A: 'b' })
      expect(valuesOf({ settings: { A: 'b' } }, { [name]: '' })).toEqual({ A: 'b', INTAKE_CONFIG: 'itself' })
      const inFile = { [name]: '', [`${name}_FILE`]: 'x' }
      if (!name.endsWith('_FILE')) expect(valuesOf({ settings: { A: 'b' } }, inFile)).toEqual({ A: 'b' })
    },
  )

  test.each(['{', '', 'null', '7', '[]', '{"settings":null}', '{"settings":"x"}', '{"settings":{"A":7}}'])(
    'gives no settings where it has none, so that reading its teams reports the error: %j',
    (text) => {
      expect(valuesOf(text)).toEqual({ INTAKE_CONFIG: 'itself' })
    },
  )

  test('has only its texts as settings', () => {
    expect(settingsOfDocument({ settings: { A: 'b', C: 7, D: null, E: {} } })).toEqual({ A: 'b' })
    expect(settingsOfDocument(undefined)).toEqual({})
  })

  test.each([
    ['plain', { A: 'plain' }],
    ['file:/x', { A_FILE: '/x' }],
    ['env:SET', { A: 'value' }],
    ['env:EMPTY', {}],
    ['env:ABSENT', {}],
    ['see env:SET', { A: 'see env:SET' }],
    ['a file:/x', { A: 'a file:/x' }],
  ])('a setting written as %j is %j', (text, expected) => {
    expect(settingOfText('A', text, { SET: 'value', EMPTY: '' })).toEqual(expected)
  })
})

test('the environment comes before the file, whether each sets the value or names a file with it', () => {
  const values = { A: 'file', B_FILE: '/file', C: 'file', D_FILE: '/file', E: 'file', F_FILE: '/file' }
  const env = { A: 'env', B: 'env', C_FILE: '/env', D_FILE: '/env', G: 'env' }
  expect(withEnvFile(env, { path: '/x', values })).toEqual({ ...env, E: 'file', F_FILE: '/file' })
  expect(withEnvFile({ A: 'env' }, { path: '/x', values: { A_FILE_OF: 'file' } })).toEqual({
    ...{ A: 'env', A_FILE_OF: 'file' },
  })
  expect(withEnvFile({ A: '' }, { path: '/x', values: { A: 'file' } })).toEqual({ A: '' })
  expect(withEnvFile(env, null)).toBe(env)
})

test('a variable with an empty NAME_FILE is read as if that were not set', () => {
  expect(settingsOf({ A: 'b', A_FILE: '', C_FILE: '' }).get('A')).toBe('b')
  expect(settingsOf({ A: 'b', A_FILE: '', C_FILE: '' }).get('C')).toBeNull()
})

test.each([
  ['1s', 1],
  ['90s', 90],
  ['15m', 900],
  ['2h', 7_200],
  ['8d', 691_200],
  ['999999s', 999_999],
  ['0s', undefined],
  ['0d', undefined],
  ['1000000s', undefined],
  ['15', undefined],
  ['m', undefined],
  ['1.5h', undefined],
  ['-1h', undefined],
  ['1w', undefined],
  ['1h ', undefined],
  [' 1h', undefined],
  ['1h30m', undefined],
])('the duration %j is %j seconds', (text, seconds) => {
  expect(durationShape.safeParse(text).data).toBe(seconds)
})

test.each([
  ['baseUrl', 'baseUrl'],
  ['a-b_C9', 'a-b_C9'],
  ['a'.repeat(31), 'a'.repeat(31)],
  [7, '7'],
  ['a'.repeat(32), 'an unknown key'],
  ['7', 'an unknown key'],
  ['-a', 'an unknown key'],
  ['a key', 'an unknown key'],
  [' a', 'an unknown key'],
  ['postgres://u:p@db', 'an unknown key'],
  ['', 'an unknown key'],
])('the key %j is printed as %s', (key, printed) => {
  expect(printableKey(key)).toBe(printed)
})
