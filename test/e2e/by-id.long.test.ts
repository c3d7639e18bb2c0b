/** An answer to a GET of one record by id means the same for every caller. */
import type http from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { json } from '../api/support/service.ts'
import type { Ended } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { withoutPauses } from './support/impatient.ts'
import {
  type LittleService,
  littlePatient,
  littlePatients,
  startLittleService,
} from './support/little-service.ts'
import { openWarehouse, query } from './support/scene.ts'

withoutPauses()

let warehouse: TestDatabase

beforeAll(async () => {
  warehouse = await openWarehouse()
})

afterAll(async () => {
  await warehouse.drop()
})

type Meaning = 'stop' | 'gone' | 'dead' | 'later'
type Answer = (response: http.ServerResponse) => void

const status =
  (code: number, headers = {}): Answer =>
  (response) =>
    json(response, { detail: 'Ann Example' }, code, headers)

const ANSWERS: readonly (readonly [string, Meaning, Answer])[] = [
  ['401', 'stop', status(401)],
  ['403', 'stop', status(403)],
  ['405', 'stop', status(405)],
  ['406', 'stop', status(406)],
  ['501', 'stop', status(501)],
  ['a redirect', 'stop', status(302, { location: 'http://elsewhere.invalid/' })],
  ['404', 'gone', status(404)],
  ['410', 'gone', status(410)],
  ['400', 'dead', status(400)],
  ['422', 'dead', status(422)],
  ['500', 'later', status(500)],
  ['503', 'later', status(503)],
  ['a cut body', 'later', (response) => cut(response)],
  ['HTML', 'dead', (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>Ann</p>')],
  ['nothing', 'dead', (response) => response.writeHead(200).end()],
  ['a list', 'dead', (response) => json(response, { results: [], count: 0 })],
  ['another record', 'dead', (response) => json(response, littlePatient('p8', 'Example'))],
]

function cut(response: http.ServerResponse): void {
  response.writeHead(200, { 'content-type': 'application/json', 'content-length': 5000 })
  response.write('{"id":"p7"')
  setTimeout(() => response.destroy(), 10)
}

/** Answers requests of one record by its id. */
function answerOf(service: LittleService, path: string, answer: Answer): void {
  service.interfere = ({ url }, response) => {
    if (url !== path) return false
    answer(response)
    return true
  }
}

interface Team {
  readonly name: string
  run(...args: string[]): Promise<Ended>
  rows<Row extends object>(text: string): Promise<readonly Row[]>
}

function teamOf(service: LittleService, name: string): Team {
  const env = { ...service.env, INTAKE_TEAM: name, DATABASE_URL: warehouse.url }
  return {
    name,
    run: (...args) => runCommand(args, env),
    rows: (text) =>
      query(warehouse.url, text.replaceAll('OURS', '(select team_id from intake.teams where name = $1)'), [
        name,
      ]),
  }
}

const deadLetters = (team: Team) =>
  team.rows<{ record_id: string; reason: string }>(
    'select record_id, reason from intake_ops.dead_letters where team_id = OURS order by 1',
  )
const asked = (team: Team) =>
  team.rows<{ id: string }>('select id, reason from intake_ops.refetches where team_id = OURS order by 1')

const CODE = { stop: 1, gone: 0, dead: 4, later: 4 } as const

/** Assertions for every caller. */
async function expectMeaning(team: Team, run: Ended, meaning: Meaning, id: string): Promise<void> {
  expect(run.output).not.toContain('Ann')
  const found = await deadLetters(team)
  if (meaning === 'dead') expect(found).toMatchObject([{ record_id: expect.stringMatching(`${id}|p8`) }])
  else expect(found).toEqual([])
  if (meaning === 'stop') expect(run.output).toMatch(/Check |Set |set /)
  if (meaning === 'later')
    expect(run.stdout).toMatch(/1 could not be fetched and will be requested again later/)
}

describe.concurrent('a record that a stable list missed', () => {
  it.each(ANSWERS)('and by id answers %s: %s', async (name, meaning, answer) => {
    await using service = await startLittleService(littlePatients(25))
    const team = teamOf(service, `proof.${name.replaceAll(' ', '-')}`)
    expect((await team.run('backfill', '--streams', 'patients')).code).toBe(0)
    service.unlisted.add('p7')
    answerOf(service, '/v2/patients/p7', answer)
    const run = await team.run('backfill', '--streams', 'patients')
    expect(run.code).toBe(CODE[meaning])
    await expectMeaning(team, run, meaning, 'p7')
    const [row] = await team.rows<{ gone: boolean }>(
      `select _deleted_at is not null as gone from intake.patients where team_id = OURS and id = 'p7'`,
    )
    expect(row).toEqual({ gone: meaning === 'gone' })
    service.interfere = () => false
    service.unlisted.clear()
    const next = await team.run('backfill', '--streams', 'patients')
    expect(next.code).toBe(0)
    expect(await deadLetters(team).then((all) => all.length)).toBe(meaning === 'dead' ? 1 : 0)
  })
})

const summary = (id: string) => ({
  ...{ id, patient: { id: 'p1' }, form: { id: 'f1' }, form_name: 'F', packet: null, document: null },
  ...{ is_submitted: true, is_skipped: false, is_archived: false, submitted_at: '2026-01-01T00:00:00Z' },
  ...{ created_at: '2026-01-01T00:00:00Z', updated_at: '2026-01-01T00:00:00Z' },
})

describe.concurrent('a record whose list entry is only a summary', () => {
  it.each(ANSWERS)('and by id answers %s: %s', async (name, meaning, answer) => {
    await using service = await startLittleService()
    service.records.responses.push(summary('r1'), summary('p7'), summary('r3'))
    const whole = (url: string) => ({ ...summary(url.split('/').at(-1)!), answers: [] })
    const team = teamOf(service, `summary.${name.replaceAll(' ', '-')}`)
    service.interfere = ({ url }, response) => {
      if (!url.startsWith('/v2/responses/')) return false
      if (url.endsWith('/p7')) answer(response)
      else json(response, whole(url))
      return true
    }
    const run = await team.run('backfill', '--streams', 'responses')
    // A listed record that is not found is not a delete: it is reported.
    expect(run.code).toBe(meaning === 'gone' ? 4 : CODE[meaning])
    await expectMeaning(team, run, meaning === 'gone' ? 'dead' : meaning, 'p7')
    const ids = () =>
      team.rows<{ id: string }>('select id from intake.responses where team_id = OURS order by id')
    if (meaning !== 'stop') expect(await ids()).toEqual([{ id: 'r1' }, { id: 'r3' }])
    expect(await asked(team)).toEqual(meaning === 'later' ? [{ id: 'p7', reason: 'partial' }] : [])
    const moved = await team.rows(
      `select cursor ->> 'scanned_at' as at from intake_ops.checkpoints where team_id = OURS`,
    )
    expect(moved).toEqual([{ at: meaning === 'stop' ? null : expect.any(String) }])
    service.interfere = ({ url }, response) => {
      if (!url.startsWith('/v2/responses/')) return false
      json(response, whole(url))
      return true
    }
    expect((await team.run('backfill', '--streams', 'responses')).code).toBe(0)
    expect(await ids()).toEqual([{ id: 'p7' }, { id: 'r1' }, { id: 'r3' }])
  })
})

describe.concurrent('a record that differs', () => {
  const spoil = (team: Team) =>
    team.rows(
      `update intake.patients set last_name = 'spoilt' where team_id = OURS and id = 'p7' returning id`,
    )

  it.each(ANSWERS)('and by id answers %s to verify: %s', async (name, meaning, answer) => {
    await using service = await startLittleService(littlePatients(25))
    const team = teamOf(service, `verify.${name.replaceAll(' ', '-')}`)
    expect((await team.run('backfill', '--streams', 'patients')).code).toBe(0)
    service.records.patients[6] = littlePatient('p7', 'changed')
    answerOf(service, '/v2/patients/p7', answer)
    const run = await team.run('verify', '--streams', 'patients', '--json')
    const { patients } = JSON.parse(run.stdout).streams
    expect(await deadLetters(team)).toEqual([])
    if (meaning === 'stop')
      expect([run.code, patients.error]).toEqual([1, expect.stringMatching(/Check |Set |set /)])
    if (meaning === 'gone') expect([run.code, patients.extra]).toEqual([4, ['p7']])
    if (meaning === 'dead')
      expect(patients).toMatchObject({ different: [], note: expect.stringContaining('1 record(s)') })
    if (meaning === 'later') {
      expect([run.code, patients.different]).toEqual([4, []])
      expect(patients.note).toMatch(/^1 could not be fetched/)
    }
  })

  it.each(ANSWERS)('and by id answers %s to the repair: %s', async (name, meaning, answer) => {
    await using service = await startLittleService(littlePatients(25))
    const team = teamOf(service, `repair.${name.replaceAll(' ', '-')}`)
    expect((await team.run('backfill', '--streams', 'patients')).code).toBe(0)
    await spoil(team)
    answerOf(service, '/v2/patients/p7', answer)
    const run = await team.run('verify', '--repair', '--streams', 'patients')
    expect(run.code).toBe(meaning === 'stop' ? 1 : 4)
    await expectMeaning(team, run, meaning, 'p7')
    const [row] = await team.rows(`select last_name from intake.patients where team_id = OURS and id = 'p7'`)
    expect(row).toEqual({ last_name: 'spoilt' })
    service.interfere = () => false
    expect((await team.run('verify', '--repair', '--streams', 'patients')).code).toBe(0)
    const [repaired] = await team.rows(
      `select last_name from intake.patients where team_id = OURS and id = 'p7'`,
    )
    expect(repaired).toEqual({ last_name: 'first' })
  })
})

describe.concurrent('the file of an export', () => {
  const file = 'Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,Q\np1,A,,,,,,x\n'

  it.each([
    ['403', 'stop', status(403)],
    ['405', 'stop', status(405)],
    ['404', 'dead', status(404)],
    ['400', 'dead', status(400)],
    ['500', 'later', status(500)],
    ['a cut body', 'later', cut],
  ] as const)('that answers %s to verify: %s', async (name, meaning, answer) => {
    await using service = await startLittleService()
    service.records.exports.push({ id: 'e1', name: 'E', form: { id: 'f1', name: 'F' } })
    let answerFile: Answer = (response) => response.writeHead(200, { 'content-type': 'text/plain' }).end(file)
    service.interfere = ({ method }, response) => {
      if (method !== 'POST') return false
      answerFile(response)
      return true
    }
    const team = teamOf(service, `file.${name.replaceAll(' ', '-')}`)
    expect((await team.run('backfill', '--streams', 'exports')).code).toBe(0)
    answerFile = answer
    const run = await team.run('verify', '--streams', 'exports', '--json')
    const { exports } = JSON.parse(run.stdout).streams
    expect(await deadLetters(team)).toEqual([])
    expect(run.code).toBe(meaning === 'stop' ? 1 : meaning === 'later' ? 4 : 0)
    if (meaning === 'stop') expect(exports.error).toMatch(/Check |Set |set /)
    if (meaning === 'later') expect(exports.note).toMatch(/^1 could not be fetched/)
    if (meaning === 'dead') expect(exports.note).toContain('1 file(s) could not be compared')
    if (meaning !== 'stop') expect(exports).toMatchObject({ missing: [], extra: [], different: [] })
    const cells = await team.rows('select value from intake.export_cells where team_id = OURS')
    expect(cells).toEqual([{ value: 'x' }])
  })
})

describe.concurrent('an answer that stops the stream', () => {
  it('also stops the fetches that run with it: hundreds of ids cost a few requests', async () => {
    await using service = await startLittleService(littlePatients(200))
    const team = teamOf(service, 'many')
    expect((await team.run('backfill', '--streams', 'patients')).code).toBe(0)
    for (const { id } of service.records.patients.slice(20)) service.unlisted.add(id)
    let requests = 0
    service.interfere = ({ url }, response) => {
      if (!/^\/v2\/patients\/p/.test(url)) return false
      requests += 1
      status(405)(response)
      return true
    }
    const run = await team.run('backfill', '--streams', 'patients', '--allow-mass-delete')
    expect(run.code).toBe(1)
    expect(run.stdout).toContain('GET /v2/patients/{id}: the path does not allow this method (405)')
    expect(run.stdout).toContain('`paths`')
    expect(requests).toBeLessThanOrEqual(8)
    expect(await deadLetters(team)).toEqual([])
  })

  it('is a service that fails ten times in a row, without a dead letter', async () => {
    await using service = await startLittleService(littlePatients(60))
    const team = teamOf(service, 'failing')
    expect((await team.run('backfill', '--streams', 'patients')).code).toBe(0)
    for (const { id } of service.records.patients.slice(20)) service.unlisted.add(id)
    service.interfere = ({ url }, response) => {
      if (!/^\/v2\/patients\/p/.test(url)) return false
      status(500)(response)
      return true
    }
    const run = await team.run('backfill', '--streams', 'patients', '--allow-mass-delete')
    expect(run.code).toBe(1)
    expect(run.stdout).toContain('the service failed (500)')
    expect(await deadLetters(team)).toEqual([])
  })

  it('is a path that returns other records, a hundred times in a row', async () => {
    await using service = await startLittleService(littlePatients(160))
    const team = teamOf(service, 'others')
    expect((await team.run('backfill', '--streams', 'patients')).code).toBe(0)
    for (const { id } of service.records.patients.slice(20)) service.unlisted.add(id)
    service.interfere = ({ url }, response) => {
      if (!/^\/v2\/patients\/p/.test(url)) return false
      json(response, littlePatient('p1', 'x'))
      return true
    }
    const run = await team.run('backfill', '--streams', 'patients', '--allow-mass-delete')
    expect(run.code).toBe(1)
    expect(run.stdout).toContain('other records than those requested')
    expect(await deadLetters(team)).toEqual([])
  })
})

describe.concurrent('a requested refetch', () => {
  const ask = (team: Team, id: string) =>
    team.rows(`
      insert into intake_ops.refetches (team_id, stream, id, reason, origin)
      select OURS, 'patients', '${id}', 'partial', 'event:e1' returning id`)

  it('is made by the next backfill if no serve runs', async () => {
    await using service = await startLittleService(littlePatients(5))
    const team = teamOf(service, 'asked')
    expect((await team.run('backfill', '--streams', 'patients')).code).toBe(0)
    service.unlisted.add('p9')
    service.records.patients.push(littlePatient('p9', 'asked'))
    await ask(team, 'p9')
    expect((await team.run('backfill', '--streams', 'patients')).code).toBe(0)
    expect(await asked(team)).toEqual([])
    expect(
      await team.rows(`select origin from intake_raw.records where team_id = OURS and id = 'p9'`),
    ).toEqual([{ origin: 'event:e1 refetch' }])
  })

  it('that stops the stream keeps the records of the list, and stays pending', async () => {
    await using service = await startLittleService(littlePatients(5))
    const team = teamOf(service, 'asked.stop')
    expect((await team.run('backfill', '--streams', 'patients')).code).toBe(0)
    await ask(team, 'p7')
    service.records.patients.push(littlePatient('p6', 'new'))
    answerOf(service, '/v2/patients/p7', status(405))
    const run = await team.run('backfill', '--streams', 'patients')
    expect([run.code, run.stdout]).toEqual([1, expect.stringContaining('(405)')])
    expect(await asked(team)).toEqual([{ id: 'p7', reason: 'partial' }])
    expect(await team.rows(`select id from intake.patients where team_id = OURS and id = 'p6'`)).toHaveLength(
      1,
    )
  })

  it('that fails is reported by each run until it succeeds', async () => {
    await using service = await startLittleService(littlePatients(5))
    const team = teamOf(service, 'asked.later')
    expect((await team.run('backfill', '--streams', 'patients')).code).toBe(0)
    await ask(team, 'p7')
    answerOf(service, '/v2/patients/p7', status(500))
    const run = await team.run('backfill', '--streams', 'patients')
    expect([run.code, run.stdout]).toEqual([4, expect.stringContaining('1 could not be fetched')])
    service.unlisted.add('p7')
    service.records.patients.push(littlePatient('p7', 'at last'))
    service.interfere = () => false
    await team.rows(`update intake_ops.refetches set due_at = now() where team_id = OURS returning id`)
    expect((await team.run('backfill', '--streams', 'patients')).code).toBe(0)
    expect(await asked(team)).toEqual([])
  })
})
