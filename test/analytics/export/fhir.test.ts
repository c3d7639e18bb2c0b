/** An export to FHIR: whole, empty, in portions, of one team, and interrupted. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { exportFhir } from '../../../src/analytics/export/fhir.ts'
import { openSession } from '../../../src/warehouse/connect.ts'
import { createTestDatabase } from '../../support/database.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'

const folder = makeFolder('fhir-')
afterAll(() => removeFolder(folder))

test('an export to FHIR ends at once when it is interrupted, and otherwise has what there is', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  await session.client.query(`
    insert into intake.teams (name) values ('north');
    insert into intake.patients (team_id, id, _version, _origin) values (1, 'p', now(), 'test')`)
  const exported = (name: string, signal: AbortSignal) =>
    exportFhir(session, { folder: join(folder, name), team: undefined, about: {}, signal })
  const interrupted = AbortSignal.abort(new Error('interrupted'))
  await expect(exported('interrupted', interrupted)).rejects.toThrow('interrupted')
  await session.client.query('rollback')
  expect(await exported('whole', new AbortController().signal)).toMatchObject({
    output: [{ type: 'Patient', count: 1 }, { count: 0 }, { count: 0 }],
  })
})

test('an export to FHIR of a reader who sees no team is empty and names none', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  const options = { folder: join(folder, 'none'), about: {}, signal: new AbortController().signal }
  expect(await exportFhir(session, { ...options, team: undefined })).toMatchObject({
    ...{ team: null, rows: 0 },
    output: [{ count: 0 }, { count: 0 }, { count: 0 }],
  })
  await expect(exportFhir(session, { ...options, team: 'north' })).rejects.toThrow('no team "north"')
})

test('an export to FHIR counts all records, however many portions they are read in', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  await session.client.query(`
    insert into intake.teams (name) values ('north');
    insert into intake.patients (team_id, id, _version, _origin) select 1, 'p' || n, now(), 'test' from generate_series(1, 2001) n`)
  const out = join(folder, 'many')
  const options = { folder: out, team: undefined, about: {}, signal: new AbortController().signal }
  expect(await exportFhir(session, options)).toMatchObject({
    rows: 2001,
    output: [{ type: 'Patient', count: 2001 }, { count: 0 }, { count: 0 }],
    files: [{ file: 'Patient.ndjson', rows: 2001 }, { rows: 0 }, { rows: 0 }],
  })
  expect(readFileSync(join(out, 'Patient.ndjson'), 'utf8').trimEnd().split('\n')).toHaveLength(2001)
})

test('an export to FHIR has the records of one team in the order of their ids', async () => {
  await using database = await createTestDatabase()
  await using session = await openSession({ url: database.url, purpose: 'test' })
  await session.client.query(`
    insert into intake.teams (name) values ('north'), ('south');
    insert into intake.patients (team_id, id, _version, _origin)
      select team_id, id, now(), 'test' from intake.teams, unnest('{b,c,a}'::text[]) id;
    insert into intake.forms (team_id, id, name, _version, _origin)
      select team_id, id, 'of ' || team_id, now(), 'test' from intake.teams, unnest('{f,e}'::text[]) id;
    insert into intake.responses (team_id, id, _version, _origin)
      select team_id, id, now(), 'test' from intake.teams, unnest('{s,r}'::text[]) id`)
  const out = join(folder, 'ordered')
  const manifest = await exportFhir(session, {
    ...{ folder: out, team: 'south', about: { version: '1' }, signal: new AbortController().signal },
  })
  const files = [
    ['Patient', 3],
    ['Questionnaire', 2],
    ['QuestionnaireResponse', 2],
  ].map(([type, rows]) => {
    const bytes = readFileSync(join(out, `${type}.ndjson`))
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    return { type, file: `${type}.ndjson`, rows, bytes: bytes.length, sha256 }
  })
  expect(manifest).toEqual({
    transactionTime: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00$/),
    ...{ request: 'intake-sync export --format fhir-ndjson', requiresAccessToken: false, error: [] },
    output: files.map(({ type, file, rows }) => ({ type, url: file, count: rows })),
    ...{ format: 'fhir-ndjson', team: 'south', rows: 7 },
    files: files.map(({ type, ...file }) => file),
  })
  expect(JSON.parse(readFileSync(join(out, 'manifest.json'), 'utf8'))).toEqual({ version: '1', ...manifest })
  expect(readdirSync(out).sort()).toEqual([...files.map(({ file }) => file), 'manifest.json'])
  const resources = (type: string): { id: string; title?: string }[] =>
    readFileSync(join(out, `${type}.ndjson`), 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
  expect(resources('Patient').map(({ id }) => id)).toEqual(['a', 'b', 'c'])
  expect(resources('Questionnaire').map(({ id, title }) => [id, title])).toEqual([
    ['e', 'of 2'],
    ['f', 'of 2'],
  ])
  expect(resources('QuestionnaireResponse').map(({ id }) => id)).toEqual(['r', 's'])
})
