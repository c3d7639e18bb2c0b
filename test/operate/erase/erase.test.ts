/** An erased patient is removed everywhere and stays erased, whatever arrives later; no other patient is touched. */

import { createHash } from 'node:crypto'
import pino from 'pino'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openDrain } from '../../../src/ingest/drain/drain.ts'
import { readEvent } from '../../../src/ingest/inbox/event.ts'
import { openScene, query, type Scene } from '../../e2e/support/scene.ts'
import { runCommand } from '../../support/run-command.ts'
import { tablesHolding } from '../everywhere.ts'

const CANARY = 'Kanarienvogel7351'

let scene: Scene
let patient: string
let responses: readonly string[]
let another: string
/** Texts that must be nowhere: the id, a text of the patient, and the ids of the patient's records. */
let texts: readonly string[]

const api = async (method: string, path: string, body?: object) => {
  const { INTAKE_BASE_URL, INTAKE_API_KEY, INTAKE_API_SECRET } = scene.env
  const response = await fetch(`${INTAKE_BASE_URL}${path}`, {
    method,
    headers: {
      'X-API-KEY': INTAKE_API_KEY!,
      'X-API-SECRET': INTAKE_API_SECRET!,
      'content-type': 'application/json',
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  if (!response.ok) throw new Error(`${method} ${path} was answered ${response.status}`)
  return (await response.json()) as Record<string, unknown>
}

const run = (...words: string[]) => runCommand(words, scene.env)

async function store(...bodies: (string | object)[]): Promise<void> {
  for (const body of bodies) {
    const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
    const event = readEvent(1, bytes)
    await query(
      scene.url,
      `insert into intake_raw.inbox
         (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id, body)
       values (1, $1, $2, (now() at time zone 'UTC')::date, now(), $3, $4, $5, $6)`,
      [
        event.eventId,
        createHash('sha256').update(bytes).digest(),
        event.eventType,
        event.source,
        event.recordId,
        bytes,
      ],
    )
  }
}

async function drain(): Promise<void> {
  const logger = pino({ level: 'silent' })
  const watch = { drained: () => {}, refetched: () => {}, defect: () => {} }
  const teams = [{ name: 'default', teamId: 1 }]
  await using draining = openDrain({ url: scene.url, teams, clock: systemClock, logger, watch })
  await draining.idle()
}

let events = 0
const event = (source: string, data: unknown, type = 'updated') => {
  events += 1
  return { id: `event-${events}`, timestamp: new Date().toISOString(), event_type: type, source, data }
}
const packetResponse = (id: string, members: readonly string[]) =>
  event('packet_response', {
    ...{ id, packet: { id: 'k' }, is_submitted: true, is_archived: false, form_index: 2, is_queued: false },
    ...{ submitted_at: null, created_at: '2026-01-01T00:00:00Z', updated_at: '2026-01-02T00:00:00Z' },
    responses: members,
  })

beforeAll(async () => {
  scene = await openScene({ patients: 12, forms: 3, packets: 2, documents: 1, responses: 20 })
  const first = await scene.backfill()
  expect(first.code).toBe(0)
  // The patient with the most records.
  const [most] = await query<{ id: string }>(
    scene.url,
    `select patient_id as id from intake.responses r
     where exists (select from intake.messages m where m.patient_id = r.patient_id)
       and exists (select from intake.export_rows e where e.client_id = r.patient_id)
     group by 1 order by count(*) desc, 1 limit 1`,
  )
  patient = most!.id
  await api('PATCH', `/v2/patients/${patient}`, {
    first_name: CANARY,
    last_name: CANARY,
    email: `${CANARY}@example.com`,
    custom_fields: { plan: CANARY },
  })
  await scene.backfill('--full')
  // A second state, so that the first is in the history.
  await api('PATCH', `/v2/patients/${patient}`, { last_name: `${CANARY} two` })
  await scene.backfill('--full')
  responses = (
    await query<{ id: string }>(scene.url, 'select id from intake.responses where patient_id = $1', [patient])
  ).map(({ id }) => id)
  const [other] = await query<{ id: string }>(
    scene.url,
    'select id from intake.responses where patient_id <> $1 limit 1',
    [patient],
  )
  another = other!.id
  texts = [patient, CANARY, ...responses]
  await store(
    packetResponse('packet-theirs', [responses[0]!]),
    packetResponse('packet-of-another', [another]),
  )
  await drain()
  // Events of every kind: loaded, dead-lettered, unreadable, and pending.
  await store(
    event('patient', await api('GET', `/v2/patients/${patient}`)),
    event('response', await api('GET', `/v2/responses/${responses[0]}`)),
    event('response', { patient: { id: patient, email: CANARY } }),
    `{"id": "cut", "source": "patient", "data": {"id": "${patient}", "email": "${CANARY}`,
    `{"id": "cut too", "source": "patient", "data": {"id": "somebody-else"`,
  )
  await drain()
  await store(event('response', await api('GET', `/v2/responses/${responses[0]}`)))
  await query(
    scene.url,
    `insert into intake_ops.refetches (team_id, stream, id, reason, origin) values (1, 'patients', $1, 'contested', 'event:x')`,
    [patient],
  )
})

afterAll(async () => {
  await scene?.[Symbol.asyncDispose]()
})

test('before the erasure, the patient is in every kind of table', async () => {
  const found = await tablesHolding(scene.url, texts)
  for (const table of [
    'intake.patients',
    'intake.patient_custom_fields',
    'intake.responses',
    'intake.response_answers',
    'intake.messages',
    'intake.export_rows',
    'intake.packet_response_members',
    'intake_raw.records',
    'intake_raw.record_history',
    'intake_raw.export_chunks',
    'intake_raw.set_aside',
    'intake_ops.refetches',
  ]) {
    expect.soft(found[table] ?? 0, table).toBeGreaterThan(0)
  }
})

describe('erase', () => {
  test('fails for an unknown id, and records nothing', async () => {
    const ended = await run('erase', 'patient', 'nobody-of-this-name', '--yes', '--json')
    expect(ended.code).toBe(1)
    expect(ended.output).not.toContain('nobody-of-this-name')
    expect(JSON.parse(ended.stdout).error.code).toBe('unknown_patient')
    expect(await query(scene.url, 'select from intake_ops.erasures')).toEqual([])
  })

  test('without a terminal and --yes does nothing and says what to add', async () => {
    const ended = await run('erase', 'patient', patient)
    expect(ended.code).toBe(2)
    expect(ended.stderr).toContain('--yes')
    expect(Object.keys(await tablesHolding(scene.url, [CANARY]))).toContain('intake.patients')
  })

  test('removes the patient from every table, and changes no other row', async () => {
    const rest = async () =>
      await query<{ line: string }>(
        scene.url,
        `select 'p ' || p::text as line from intake.patients p where id <> $1
         union all select 'r ' || r::text from intake.responses r where patient_id is distinct from $1
         union all select 'm ' || m::text from intake.messages m where patient_id is distinct from $1
         union all select 'e ' || e::text from intake.export_rows e where client_id is distinct from $1
         union all select 'c ' || c::text from intake.export_cells c
           where not exists (select from intake.export_rows e where (e.team_id, e.export_id, e.row_number)
             = (c.team_id, c.export_id, c.row_number) and e.client_id = $1)
         order by 1`,
        [patient],
      )
    const before = await rest()
    const ended = await run('erase', 'patient', patient, '--yes', '--json')
    expect(ended.stderr).toBe('')
    expect(ended.code).toBe(0)
    const { erased } = JSON.parse(ended.stdout)
    expect(erased.records).toBeGreaterThan(responses.length + 1)
    expect(erased).toMatchObject({
      history: expect.toSatisfy((count: number) => count > 1),
      events: expect.toSatisfy((count: number) => count >= 5),
      dead_letters: expect.toSatisfy((count: number) => count === 2),
      export_rows: expect.toSatisfy((count: number) => count > 0),
    })
    expect(await tablesHolding(scene.url, texts)).toEqual({})
    expect(await rest()).toEqual(before)
    expect(await query(scene.url, 'select id from intake.packet_responses order by 1')).toEqual([
      { id: 'packet-of-another' },
    ])
    expect(
      await query(scene.url, `select record_id from intake_raw.inbox where event_id like 'unreadable:%'`),
    ).toHaveLength(1)
  })
})

describe('after the erasure', () => {
  test('a full backfill does not load the patient again, and counts the skipped records', async () => {
    // The files of exports have changed too, so that they are read again.
    await api('PATCH', `/v2/patients/${patient}`, { last_name: `${CANARY} three` })
    const ended = await scene.backfill('--full', '--json')
    expect(ended.code).toBe(0)
    expect(await tablesHolding(scene.url, texts)).toEqual({})
    const { streams } = JSON.parse(ended.stdout)
    expect(streams.patients).toMatchObject({ erased: 1, changed: 0, deleted: 0 })
    expect(streams.responses.erased).toBe(responses.length)
    expect(streams.messages.erased).toBeGreaterThan(0)
    const dryRun = await scene.backfill('--full', '--dry-run')
    expect(dryRun.stdout).toContain('skipped, patient erased: 1 of patients')
    const [own] = await query<{ skipped: number }>(
      scene.url,
      'select skipped::int from intake_ops.erasures where hash = patient_hash',
    )
    expect(own!.skipped).toBeGreaterThan(1)
  })

  test('a verification finds nothing missing, and shows no name', async () => {
    const ended = await run('verify', '--json')
    expect(ended.stdout).not.toContain(patient)
    const { streams } = JSON.parse(ended.stdout)
    for (const name of ['patients', 'responses', 'messages', 'exports'])
      expect.soft(streams[name], name).toMatchObject({ missing: [], extra: [], different: [] })
    expect(await tablesHolding(scene.url, texts)).toEqual({})
  })

  test('a replay rebuilds the files of exports as they are: the kept bytes give the same rows', async () => {
    const tables = async () =>
      await query(
        scene.url,
        `select e.export_id, row_number, e::text as line from intake.export_rows e
         union all select export_id, row_number, c::text from intake.export_cells c order by 1, 2, 3`,
      )
    const before = await tables()
    const ended = await run('replay', '--streams', 'exports', '--json')
    expect(ended.code).toBe(0)
    expect(await tables()).toEqual(before)
  })

  test('events of every kind are skipped, and the inbox keeps nothing of them', async () => {
    const [member] = responses
    await store(
      event('patient', await api('GET', `/v2/patients/${patient}`)),
      event('patient', { id: patient }),
      event('patient', { id: patient }, 'deleted'),
      event('response', await api('GET', `/v2/responses/${member}`)),
      event('response', { id: member }, 'deleted'),
      event('response', { patient: { id: patient, email: CANARY } }),
      packetResponse('packet-theirs', [member!]),
      packetResponse('packet-theirs-too', [another, member!]),
      `{"id": "cut again", "source": "patient", "data": {"id": "${patient}", "email": "${CANARY}`,
    )
    await drain()
    expect(await tablesHolding(scene.url, texts)).toEqual({})
    expect(await query(scene.url, `select from intake_raw.inbox where status = 'pending'`)).toEqual([])
    expect(await query(scene.url, 'select id from intake.packet_responses order by 1')).toEqual([
      { id: 'packet-of-another' },
    ])
  })

  test('a response created later is skipped, as are events with only its id', async () => {
    const later = {
      ...(await api('GET', `/v2/responses/${another}`)),
      id: 'made-later',
      patient: { id: patient },
    }
    await store(event('response', later))
    await drain()
    await store(
      event('response', { id: 'made-later' }, 'deleted'),
      packetResponse('packet-later', ['made-later']),
    )
    await drain()
    expect(await tablesHolding(scene.url, [...texts, 'made-later', 'packet-later'])).toEqual({})
  })

  test('an erasure during a backfill that loads the patient leaves nothing behind', async () => {
    const [one] = await query<{ id: string }>(
      scene.url,
      `select patient_id as id from intake.responses where patient_id is not null and patient_id <> $1
       group by 1 order by count(*) desc limit 1`,
      [patient],
    )
    const id = one!.id
    for (const last_name of ['Once', 'Twice']) {
      await api('PATCH', `/v2/patients/${id}`, { last_name })
      const [loading, erasing] = await Promise.all([
        scene.backfill('--full'),
        run('erase', 'patient', id, '--yes', ...(last_name === 'Twice' ? [] : ['--forget'])),
      ])
      expect([loading.code, erasing.code]).toEqual([0, 0])
      // With a hash that is deleted at once, a running load may write the patient after the erasure.
      if (last_name === 'Twice') expect(await tablesHolding(scene.url, [id])).toEqual({})
      else await scene.backfill('--full')
    }
  })

  test('explain reports that the patient was erased', async () => {
    const ended = await run('explain', 'patients', patient)
    expect([ended.code, ended.stderr]).toEqual([
      1,
      expect.stringMatching(/was erased[\s\S]*code: erased, see /),
    ])
    expect(ended.output).not.toContain(patient)
  })

  test('a second erasure finds nothing to remove, and is no failure', async () => {
    const ended = await run('erase', 'patient', patient, '--yes', '--json')
    expect(ended.code).toBe(0)
    expect(JSON.parse(ended.stdout)).toMatchObject({ erased: { records: 0, events: 0 }, hash_kept: true })
  })

  test('with --forget the hashes are removed too, and the next backfill loads the patient again', async () => {
    const ended = await run('erase', 'patient', patient, '--yes', '--forget')
    expect(ended.code).toBe(0)
    // The hashes of the other patient stay.
    const left = await query<{ patients: number; of: number }>(
      scene.url,
      `select count(*) filter (where hash = patient_hash)::int as patients, count(distinct patient_hash)::int as of
       from intake_ops.erasures`,
    )
    expect(left).toEqual([{ patients: 1, of: 1 }])
    await scene.backfill('--full')
    expect(Object.keys(await tablesHolding(scene.url, [patient]))).toEqual(
      expect.arrayContaining(['intake.patients', 'intake.responses', 'intake.messages']),
    )
  })

  test('status does not report the events that it removed as lost, and reports one that was', async () => {
    const theirs = event('patient', await api('GET', `/v2/patients/${patient}`))
    await store(theirs)
    await drain()
    await query(
      scene.url,
      `insert into intake_ops.webhook_secrets (team_id, config_id, secret, created_at)
       values (1, 'ours', '\\x00', now() - interval '1 day')`,
    )
    await query(
      scene.url,
      `insert into intake.webhook_deliveries
         (team_id, id, event_id, webhook_config_id, status, response_status_code, created_at, _version, _origin)
       select 1, id, id, 'ours', 'delivered', 200, now(), now(), 'test' from unnest($1::text[]) as id`,
      [[theirs.id, 'an event that never arrived']],
    )
    const missing = async () =>
      JSON.parse((await run('status', '--json')).stdout).teams[0].webhooks.deliveries_missing
    expect(await missing()).toBe(1)
    expect((await run('erase', 'patient', patient, '--yes')).code).toBe(0)
    expect(
      await query(scene.url, 'select from intake_raw.inbox where event_id = $1', [theirs.id]),
    ).toHaveLength(0)
    expect(await missing()).toBe(1)
  })
})
