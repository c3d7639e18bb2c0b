/** What a verification says besides its counts: in which order, and how many records and which team it names. */
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { json } from '../../api/support/service.ts'
import { withoutPauses, withoutPausesOfVerify } from '../../e2e/support/impatient.ts'
import { type LittleService, littlePatient, startLittleService } from '../../e2e/support/little-service.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { configOf } from '../../e2e/support/teams.ts'
import type { TestDatabase } from '../../support/database.ts'
import { runCommand } from '../../support/run-command.ts'

withoutPauses()
withoutPausesOfVerify()

let service: LittleService
let warehouse: TestDatabase

/** Two teams of one service, with the same ids. */
const env = (level = 'silent') => {
  const access = { baseUrl: service.url, apiKey: 'little-key', apiSecret: 'little-secret' }
  const teams = ['north', 'south'].map((name) => ({ name, ...access }))
  return { ...configOf(teams), DATABASE_URL: warehouse.url, LOG_LEVEL: level }
}
const rows = (text: string) => query(warehouse.url, text)

beforeAll(async () => {
  warehouse = await openWarehouse()
  service = await startLittleService()
  service.records.forms.push({ id: 'f1', name: 'Intake' }, { id: 'f2', name: 'Other' })
})
afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await warehouse.drop()
})
beforeEach(async () => {
  service.interfere = () => false
  service.records.patients = ['p1', 'p2', 'p3', 'p4'].map((id) => littlePatient(id, 'first'))
  const ended = await runCommand(['backfill', '--full', '--streams', 'patients,forms'], env())
  expect(ended.code, ended.output).toBe(0)
})

async function verify(stream: string, ...words: string[]) {
  const ended = await runCommand(
    ['verify', '--json', '--streams', stream, '--team', 'north', ...words],
    env(),
  )
  return JSON.parse(ended.stdout).streams[stream]
}

test('all that could not be compared or repaired is noted: records first, then the list, the repair, and what is left to later', async () => {
  service.records.patients.pop()
  service.interfere = ({ url }, response) => {
    const id = /\/patients\/(p\d)$/.exec(url)?.[1]
    // Refused for ever, and refused for now.
    if (id === 'p1' || id === 'p2') json(response, { detail: 'No.' }, id === 'p1' ? 400 : 500)
    const isList = /\/patients(\?|$)/.test(url)
    if (isList) json(response, { count: 9, next: null, previous: null, results: service.records.patients })
    return isList || id === 'p1' || id === 'p2'
  }
  for (const id of ['p1', 'p2'])
    await rows(`
      update intake_raw.records set hash = '\\x00' where team_id = 1 and stream = 'patients' and id = '${id}';
      update intake.patients set last_name = 'wrong' where team_id = 1 and id = '${id}'`)
  const found = await verify('patients', '--repair')
  expect(found).toMatchObject({ missing: [], extra: ['p4'], different: [], repaired: 0 })
  const [unknown, list, kept, later, ...others] = found.note.split('; ')
  expect(others).toEqual([])
  expect(unknown).toBe(
    '1 record(s) could not be compared: the service returns nothing for them that can be loaded',
  )
  expect(list).toMatch(/^the list kept changing while it was read \(.+\)$/)
  expect(kept).toBe(
    'records that the service does not list were kept: its list kept changing while it was read',
  )
  expect(later).toMatch(/^1 could not be fetched/)
})

test('each record that cannot be loaded is counted once, however often its list is read', async () => {
  let lists = 0
  service.interfere = ({ url }, response) => {
    const isEntry = /\/f[12]$/.test(url)
    if (isEntry) json(response, { detail: 'No.' }, 400)
    if (/\/forms(\?|$)/.test(url)) lists += 1
    // The first list says that there is more than it has, so it is read again.
    const isShort = /\/forms(\?|$)/.test(url) && lists === 1
    if (isShort) json(response, { count: 3, next: null, previous: null, results: service.records.forms })
    return isShort || isEntry
  }
  const found = await verify('forms')
  expect(lists).toBeGreaterThan(1)
  expect(found.note).toMatch(/^2 record\(s\) could not be compared/)
})

test('every record that is missing, extra or different is named, and repaired', async () => {
  service.records.patients = ['p1', 'p2', 'p5', 'p6'].map((id) => littlePatient(id, 'first'))
  await rows(`
    update intake_raw.records set hash = '\\x00' where team_id = 1 and stream = 'patients' and id in ('p1', 'p2');
    update intake.patients set last_name = 'wrong' where team_id = 1 and id in ('p1', 'p2')`)
  const named = {
    missing: ['p5', 'p6'],
    extra: ['p3', 'p4'],
    different: ['p1', 'p2'].map((id) => ({ id, fields: ['intake_raw.records', 'last_name'] })),
  }
  expect(await verify('patients')).toMatchObject({ ...named, repaired: 0 })
  expect(await verify('patients', '--repair')).toMatchObject({ ...named, repaired: 6 })
  expect(await verify('patients')).toMatchObject({ missing: [], extra: [], different: [] })
  const run = `select options -> 'streams' as streams, options -> 'teams' as teams from intake_ops.runs
    where kind = 'verify' order by run_id desc limit 1`
  await runCommand(['verify', '--json', '--streams', 'patients,forms'], env())
  expect(await rows(run)).toEqual([{ streams: ['patients', 'forms'], teams: ['north', 'south'] }])
})

test('what fails in passing while a team is repaired is done again, with a warning that names the team', async () => {
  await rows(`
    update intake.patients set last_name = 'spoiled' where id = 'p1';
    create sequence tries;
    create function fail_once() returns trigger language plpgsql as $$ begin
      if new.team_id > 1 and nextval('tries') = 1 then raise exception using errcode = '40001'; end if;
      return new;
    end $$;
    create trigger fail_once before insert or update on intake.patients for each row execute function fail_once()`)
  const ended = await runCommand(['verify', '--repair', '--streams', 'patients', '--json'], env('warn'))
  await rows('drop trigger fail_once on intake.patients')
  expect(ended.code, ended.output).toBe(0)
  const warnings = ended.stderr.split('\n').filter((line) => line.includes('loading again'))
  expect(warnings.map((line) => JSON.parse(line))).toMatchObject([
    { team: 'south', code: 'serialization', attempt: 1, msg: 'loading again after a temporary failure' },
  ])
  expect(await rows(`select from intake.patients where last_name = 'spoiled'`)).toEqual([])
})
