/** The settings file as JSON: what it says under the names of variables, and what changes in it. */
import { describe, expect, it } from 'vitest'
import { editedDocument, parseDocument, settingsIn } from '../../../src/commands/init/settings-json.ts'

describe('a JSON document', () => {
  const document = {
    ...{ note: 'mine', settings: { LOG_LEVEL: 'info', INTAKE_ENCRYPTION_KEY: 'file:/k' } },
    teams: [{ name: 'north', apiKey: 'file:/a', webhookSecrets: ['x', 'y'], pageSize: 5 }],
  }

  it('has the settings of its only team under the names of variables', () => {
    expect(settingsIn(document, '/x.json')).toEqual({
      ...{ LOG_LEVEL: 'info', INTAKE_ENCRYPTION_KEY_FILE: '/k', INTAKE_TEAM: 'north' },
      ...{ INTAKE_API_KEY_FILE: '/a', INTAKE_WEBHOOK_SECRETS: 'x,y' },
    })
    expect(settingsIn({ ...document, teams: [{ name: 'a' }, { name: 'b' }] }, '/x.json')).toEqual({
      ...{ LOG_LEVEL: 'info', INTAKE_ENCRYPTION_KEY_FILE: '/k', INTAKE_CONFIG: '/x.json' },
    })
  })

  it('keeps what does not change; a NAME that replaces NAME_FILE is not removed with it', () => {
    const changed = [
      { name: 'INTAKE_API_KEY', before: null, after: 'plain' },
      { name: 'INTAKE_API_KEY_FILE', before: '/a', after: null },
      { name: 'LOG_LEVEL', before: 'info', after: null },
      { name: 'INTAKE_WEBHOOK_SECRETS', before: 'x,y', after: 'y, z' },
      { name: 'INTAKE_API_SECRET_FILE', before: null, after: '/s' },
    ]
    expect(editedDocument(document, changed)).toEqual({
      ...{
        $schema: './intake-sync.schema.json',
        note: 'mine',
        settings: { INTAKE_ENCRYPTION_KEY: 'file:/k' },
      },
      teams: [
        { name: 'north', apiKey: 'plain', apiSecret: 'file:/s', webhookSecrets: ['y', 'z'], pageSize: 5 },
      ],
    })
    expect(document.teams[0]).toHaveProperty('apiKey', 'file:/a')
    const removed = [{ name: 'INTAKE_WEBHOOK_SECRETS', before: 'x,y', after: null }]
    expect(editedDocument({ $schema: 'own', ...document }, removed)).toEqual({
      ...{ $schema: 'own', ...document, teams: [{ name: 'north', apiKey: 'file:/a', pageSize: 5 }] },
    })
  })

  it('of several teams takes shared settings only', () => {
    const several = { teams: [{ name: 'a' }, { name: 'b' }] }
    const shared = [{ name: 'LOG_LEVEL', before: null, after: 'warn' }]
    expect(editedDocument(several, shared)).toMatchObject({ settings: { LOG_LEVEL: 'warn' }, ...several })
    const refused = {
      INTAKE_TEAM: {
        ...{ variable: '--file', code: 'usage' },
        message: 'INTAKE_TEAM: the settings file has several teams, and this belongs to one of them',
        hint: 'change the team in the file, and run intake-sync init without this setting',
      },
      INTAKE_CONFIG: {
        ...{ variable: 'INTAKE_CONFIG', code: 'setting_invalid' },
        message: 'INTAKE_CONFIG names a file of teams, and the settings file has teams itself',
        hint: 'unset INTAKE_CONFIG, or name that file with --file',
      },
    }
    for (const [name, error] of Object.entries(refused))
      expect(() => editedDocument(several, [{ name, before: null, after: 'x' }])).toThrow(
        expect.objectContaining(error),
      )
    expect(() => editedDocument({}, [{ name: 'INTAKE_CONFIG_FILE', before: null, after: 'x' }])).toThrow(
      'INTAKE_CONFIG names',
    )
  })

  it.each(['', '{', '[]', 'null', '7', '"hunter2"'])('%s is none, and nothing of it is shown', (text) => {
    expect(() => parseDocument(text)).toThrow(
      expect.objectContaining({
        ...{ message: 'the settings file is not a JSON object', code: 'usage', variable: '--file' },
        hint: 'correct it, or name another file',
      }),
    )
  })

  it('has each setting of a team under its name in the file, and nothing that is empty or no text', () => {
    const names = {
      ...{ INTAKE_TEAM: 'name', INTAKE_BASE_URL: 'baseUrl', INTAKE_API_KEY: 'apiKey' },
      ...{ INTAKE_API_SECRET: 'apiSecret', INTAKE_API_VERSION: 'apiVersion', INTAKE_TIMEZONE: 'timezone' },
      ...{ INTAKE_RATE_LIMIT: 'rateLimit', INTAKE_WEBHOOK_SECRETS: 'webhookSecrets' },
    }
    const team = Object.fromEntries(Object.values(names).map((key) => [key, `own ${key}`]))
    const settings = Object.fromEntries(Object.entries(names).map(([name, key]) => [name, `own ${key}`]))
    expect(settingsIn({ teams: [team] }, '/x')).toEqual(settings)
    const changed = Object.entries(settings).map(([name, after]) => ({ name, before: null, after }))
    expect(editedDocument({}, changed)).toEqual({
      ...{ $schema: './intake-sync.schema.json', settings: {} },
      teams: [{ ...team, webhookSecrets: ['own webhookSecrets'] }],
    })
    expect(settingsIn({ teams: [null, { name: '', apiKey: 7, baseUrl: null }] }, '/x')).toEqual({})
    expect(settingsIn({ teams: 'x' }, '/x')).toEqual({})
  })
})
