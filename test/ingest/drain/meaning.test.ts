/** The meaning of each kind of event: a state, a tombstone, a conflict, a dead letter, or drift. */
import { afterEach, beforeEach, expect, test } from 'vitest'
import { teamIdOf } from '../../../src/load/teams.ts'
import { loadExport } from '../../operate/erase/files.ts'
import { noonPlus, openScene, patient, patientEvent, type Scene } from './scene.ts'

let scene: Scene

beforeEach(async () => {
  scene = await openScene()
})

afterEach(async () => {
  await scene[Symbol.asyncDispose]()
})

const names = async () =>
  Object.fromEntries(
    (await scene.rows<{ id: string; last_name: string }>('select id, last_name from intake.patients')).map(
      ({ id, last_name }) => [id, last_name],
    ),
  )

const deadLetters = () =>
  scene.rows<{ stream: string; record_id: string | null; reason: string; origin: string }>(
    'select stream, record_id, reason, origin from intake_ops.dead_letters order by id',
  )

test('an event becomes its row and children, with its origin', async () => {
  const event = patientEvent('p1', 1, {
    emergency_contact: { first_name: 'Bo' },
    patient_tags: [{ name: 'VIP', color: '#ff0000' }],
    custom_fields: { plan: 'x' },
  })
  await scene.store([event])
  await scene.drain()
  expect(await scene.inbox()).toEqual({ done: 1 })
  expect(await scene.rows('select last_name, _origin, _version::text from intake.patients')).toEqual([
    { last_name: 'Other', _origin: `event:${event.id}`, _version: '2026-01-01 12:00:01+00' },
  ])
  expect(await scene.rows('select name, color from intake.patient_tags')).toEqual([
    { name: 'VIP', color: '#ff0000' },
  ])
  expect(await scene.rows('select origin, deleted from intake_raw.records')).toEqual([
    { origin: `event:${event.id}`, deleted: false },
  ])
})

test('a replayed event changes nothing', async () => {
  const event = patientEvent('p1', 1)
  await scene.store([event])
  await scene.drain()
  const before = await scene.rows('select xmin::text, _version from intake.patients')
  await scene.store([event, `${JSON.stringify(event)} `])
  expect(await scene.inbox()).toEqual({ done: 1, pending: 1 })
  await scene.drain()
  expect(await scene.inbox()).toEqual({ done: 2 })
  expect(await scene.rows('select xmin::text, _version from intake.patients')).toEqual(before)
  expect(await scene.asked()).toEqual([])
})

test('the newest of several events of a record wins, in any order of arrival', async () => {
  await scene.store([
    patientEvent('p1', 1, { last_name: 'first' }),
    patientEvent('p1', 3, { last_name: 'third' }),
    patientEvent('p1', 2, { last_name: 'second' }),
    patientEvent('p2', 1, { last_name: 'first' }),
    patientEvent('p2', 2, { last_name: 'second' }),
  ])
  await scene.drain()
  expect(await names()).toEqual({ p1: 'third', p2: 'second' })
  // Late and different is a conflict; in order is not.
  expect(await scene.asked()).toEqual(['patients p1 contested'])
})

test('a late event with different content conflicts in another batch too, one with the same content does not', async () => {
  await scene.store([
    patientEvent('p1', 3, { last_name: 'third' }),
    patientEvent('p2', 3, { last_name: 'x' }),
  ])
  await scene.drain()
  await scene.store([
    patientEvent('p1', 2, { last_name: 'second' }),
    patientEvent('p2', 2, { last_name: 'x' }),
  ])
  await scene.drain()
  expect(await names()).toEqual({ p1: 'third', p2: 'x' })
  expect(await scene.asked()).toEqual(['patients p1 contested'])
})

test('a retried event with newer data under its old time conflicts whichever wins, in one batch and in two', async () => {
  const eventOf = (id: string, name: string) =>
    patientEvent(id, 1, { last_name: name }, { id: `retried-${id}` })
  for (const names of [
    ['a', 'b'],
    ['b', 'a'],
  ] as const) {
    const id = names.join('')
    await scene.store([eventOf(id, names[0]), eventOf(id, names[1])])
    await scene.drain()
    await scene.store([eventOf(`${id} later`, names[0])])
    await scene.drain()
    await scene.store([eventOf(`${id} later`, names[1])])
    await scene.drain()
  }
  expect(await scene.asked()).toEqual(
    ['ab', 'ab later', 'ba', 'ba later'].map((id) => `patients ${id} contested`),
  )
})

test('a retried event whose record was updated an hour after its time is newer by that, and not in the future', async () => {
  await scene.store([patientEvent('p1', 1800, { last_name: 'between' })])
  await scene.drain()
  await scene.store([patientEvent('p1', 1, { last_name: 'newest', updated_at: noonPlus(3600) })])
  await scene.drain()
  expect(await names()).toEqual({ p1: 'newest' })
  expect(await scene.rows('select _version::text, _problems from intake.patients')).toEqual([
    { _version: '2026-01-01 13:00:00+00', _problems: null },
  ])
})

test('events that were stored together have no order: if they differ, the record conflicts', async () => {
  await scene.store(
    [patientEvent('p1', 1, { last_name: 'first' }), patientEvent('p1', 2, { last_name: 'second' })],
    { receivedAt: noonPlus(4000) },
  )
  await scene.drain()
  expect(await names()).toEqual({ p1: 'second' })
  expect(await scene.asked()).toEqual(['patients p1 contested'])
})

test('a deleted event leaves a tombstone, whatever its data; an older event does not undo it', async () => {
  const forms: [string, unknown][] = [
    ['whole', patient('whole', { updated_at: noonPlus(1) })],
    ['bare', { id: 'bare' }],
    ['uid', { uid: 'uid' }],
    ['bare', 'bare'],
    ['7', { id: 7 }],
  ]
  await scene.store(forms.map(([id]) => patientEvent(id, 1)))
  await scene.drain()
  await scene.store(
    forms.map(([id, data]) => ({ ...patientEvent(id, 2, {}, { event_type: 'deleted' }), data })),
  )
  await scene.drain()
  const state = `select id, _deleted_at::text, last_name from intake.patients where _deleted_at is null or last_name is not null`
  expect(await scene.rows(state)).toEqual([])
  expect(await scene.rows('select distinct _deleted_at::text from intake.patients')).toEqual([
    { _deleted_at: '2026-01-01 12:00:02+00' },
  ])
  await scene.store([
    patientEvent('whole', 1, { last_name: 'other' }),
    patientEvent('bare', 3, { updated_at: noonPlus(3) }),
  ])
  await scene.drain()
  expect(await scene.rows(state)).toMatchObject([{ id: 'bare', _deleted_at: null }])
  expect(await scene.asked()).toEqual(['patients whole contested'])
})

test('an event that restores a deleted record, with an updated_at before the delete, causes a refetch', async () => {
  await scene.store([patientEvent('p1', 2, {}, { event_type: 'deleted' })])
  await scene.drain()
  await scene.store([patientEvent('p1', 3, { updated_at: noonPlus(1) })])
  await scene.drain()
  expect(await scene.asked()).toEqual(['patients p1 contested'])
})

test.each(['one batch', 'two batches'])(
  'a state that wins by its event time but loses by updated_at causes a refetch (%s)',
  async (batches) => {
    const events = [
      patientEvent('p1', 10, { last_name: 'later', updated_at: noonPlus(2) }),
      patientEvent('p1', 11, { last_name: 'earlier', updated_at: noonPlus(1) }),
      patientEvent('p2', 10, { last_name: 'earlier', updated_at: noonPlus(1) }),
      patientEvent('p2', 11, { last_name: 'later', updated_at: noonPlus(2) }),
      patientEvent('p3', 10, { last_name: 'same', updated_at: noonPlus(2) }),
      patientEvent('p3', 11, { last_name: 'same', updated_at: noonPlus(2) }),
    ]
    for (const part of batches === 'one batch'
      ? [events]
      : [events.filter((_, at) => at % 2 === 0), events.filter((_, at) => at % 2 === 1)]) {
      await scene.store(part)
      await scene.drain()
    }
    expect(await names()).toEqual({ p1: 'earlier', p2: 'later', p3: 'same' })
    expect(await scene.asked()).toEqual(['patients p1 contested'])
  },
)

test('an event that restores a record that the service did not have causes a refetch', async () => {
  const readAt = (id: string, origin: string) =>
    scene.rows(`update intake_raw.records set origin = $2 where id = $1`, [id, origin])
  const ids = ['proved', 'refetched', 'reported']
  await scene.store(ids.map((id) => patientEvent(id, 2, {}, { event_type: 'deleted' })))
  await scene.drain()
  await readAt('proved', 'run:7 proof')
  await readAt('refetched', 'event:e refetch')
  await scene.store(ids.map((id) => patientEvent(id, 3, { updated_at: noonPlus(3) })))
  await scene.drain()
  expect(Object.keys(await names()).sort()).toEqual(ids)
  expect(await scene.rows('select id from intake.patients where _deleted_at is not null')).toEqual([])
  expect(await scene.asked()).toEqual(['patients proved contested', 'patients refetched contested'])
})

test('a delete wins over the updated_at in its own data, should the clocks of the service differ', async () => {
  await scene.store([patientEvent('p1', 1, { updated_at: noonPlus(5) })])
  await scene.drain()
  await scene.store([patientEvent('p1', 4, { updated_at: noonPlus(5) }, { event_type: 'deleted' })])
  await scene.drain()
  expect(await scene.rows('select _deleted_at::text from intake.patients')).toEqual([
    { _deleted_at: '2026-01-01 12:00:05+00' },
  ])
})

test('a deletion that is delivered late still wins over every state before it', async () => {
  // The timestamp is that of the first attempt to send; the record was updated once more before it was deleted.
  await scene.store([patientEvent('p1', 1_000, { updated_at: noonPlus(1_000) })])
  await scene.drain()
  const data = { updated_at: noonPlus(1_200) }
  await scene.store([patientEvent('p1', 600, data, { event_type: 'deleted' })])
  await scene.drain()
  expect(await scene.rows('select _deleted_at::text from intake.patients')).toEqual([
    { _deleted_at: '2026-01-01 12:20:00+00' },
  ])
})

test('deleted events without an id become dead letters, one each', async () => {
  const gone = (data: unknown) => ({ ...patientEvent('x', 1, {}, { event_type: 'deleted' }), data })
  await scene.store([gone({}), gone({}), gone(null), gone({ id: null }), gone([])])
  await scene.store([gone({ id: 'p1' })])
  await scene.drain()
  expect(await scene.inbox()).toEqual({ dead: 5, done: 1 })
  const found = await deadLetters()
  expect(found.length).toBe(5)
  expect(new Set(found.map(({ stream, record_id, reason }) => `${stream} ${record_id} ${reason}`))).toEqual(
    new Set(['patients null a deletion without the id of its record']),
  )
})

test('an unreadable event is dead-lettered as received, and stops no other', async () => {
  const odd = [
    '',
    'not JSON',
    '[]',
    '"text"',
    '{"id":"e1"}',
    '{"id":"e2","source":7}',
    `{"source":"patient","data":`,
  ]
  await scene.store([...odd, Buffer.from([0xff, 0x00, 0x7b]), patientEvent('p1', 1)])
  await scene.drain()
  expect(await scene.inbox()).toEqual({ dead: 8, done: 1 })
  expect(await names()).toEqual({ p1: 'Other' })
  const bodies = await scene.rows<{ stream: string; body: Buffer; origin: string }>(
    `select d.stream, content.body, d.origin from intake_ops.dead_letters d
     join intake_raw.set_aside content on content.dead_letter_id = d.id`,
  )
  expect(new Set(bodies.map(({ stream }) => stream))).toEqual(new Set(['inbox']))
  expect(bodies.map(({ body }) => body.toString('latin1')).sort()).toEqual([...odd, '\xff\x00{'].sort())
  for (const { origin } of bodies) expect(origin).toMatch(/^event:(e1|e2|unreadable:[0-9a-f]{64})$/)
})

test('a record without a key, or data that is no record, becomes a dead letter', async () => {
  const about = (data: unknown) => ({ ...patientEvent('x', 1), data })
  await scene.store([about(null), about('text'), about({ first_name: 'Ann' }), about(undefined)])
  await scene.store([
    '{"id":"e","timestamp":"2026-01-01T12:00:00Z","event_type":"updated","source":"patient","data":{"id":9007199254740993}}',
  ])
  await scene.drain()
  expect(await scene.inbox()).toEqual({ dead: 5 })
  expect((await deadLetters()).map(({ reason }) => reason)).toEqual([
    'an event whose record not an object',
    'an event whose record not an object',
    'an event whose record has no id',
    'an event whose record not an object',
    'an event whose record has an id that JSON numbers cannot carry exactly',
  ])
})

test('an unknown event type loads its record and is reported; an unknown source is reported and kept', async () => {
  await scene.store([
    patientEvent('p1', 1, { last_name: 'first' }),
    patientEvent('p1', 2, { last_name: 'second' }, { event_type: 'merged' }),
    patientEvent('p1', 3, { last_name: 'third' }, { event_type: 'Ann Other, 5550100' }),
    patientEvent('p1', 4, { last_name: 'fourth' }, { event_type: undefined }),
    patientEvent('i1', 1, {}, { source: 'invoice' }),
    patientEvent('i2', 1, {}, { source: 'invoice' }),
    patientEvent('i3', 1, {}, { source: 'Ann Other' }),
  ])
  await scene.drain()
  expect(await scene.inbox()).toEqual({ done: 7 })
  expect(await names()).toEqual({ p1: 'fourth' })
  expect(
    await scene.rows('select stream, path, type, count::int from intake_ops.drift order by 1, 2'),
  ).toEqual([
    { stream: 'inbox', path: 'source.(other)', type: 'string', count: 1 },
    { stream: 'inbox', path: 'source.invoice', type: 'string', count: 2 },
    { stream: 'patients', path: 'event_type', type: 'null', count: 1 },
    { stream: 'patients', path: 'event_type.(other)', type: 'string', count: 1 },
    { stream: 'patients', path: 'event_type.merged', type: 'string', count: 1 },
  ])
})

test.each([
  ['missing', undefined],
  ['null', null],
  ['no time', 'yesterday'],
  ['a number', 1767268800],
  ['six minutes ahead', noonPlus(360)],
])(
  'an event whose time is %s does not decide which state is newest: its record is fetched',
  async (_, timestamp) => {
    const receivedAt = noonPlus(0)
    await scene.store([{ ...patientEvent('p1', 1), timestamp }], { receivedAt })
    await scene.store([{ ...patientEvent('p2', 1, {}, { event_type: 'deleted' }), timestamp }], {
      receivedAt,
    })
    await scene.drain()
    expect(await scene.inbox()).toEqual({ done: 2 })
    expect(await names()).toEqual({})
    expect(await scene.asked()).toEqual(['patients p1 partial', 'patients p2 contested'])
  },
)

test('a time less than five minutes ahead counts', async () => {
  await scene.store([patientEvent('p1', 290)], { receivedAt: noonPlus(0) })
  await scene.drain()
  expect(await names()).toEqual({ p1: 'Other' })
})

test('a partial record nulls nothing that is stored: it is not loaded, and its record is fetched', async () => {
  await scene.store([
    patientEvent('p1', 1, { email: 'a@example.com' }),
    patientEvent('p2', 1, { email: 'a@example.com' }),
    patientEvent('p3', 1),
  ])
  await scene.drain()
  const without = (id: string, ...fields: string[]) => ({
    ...patientEvent(id, 2),
    data: Object.fromEntries(
      Object.entries(patient(id, { last_name: 'part' })).filter(([name]) => !fields.includes(name)),
    ),
  })
  await scene.store([
    without('p1', 'email'),
    without('p3', 'email', 'address2', 'patient_tags'),
    { ...patientEvent('p2', 2), data: { id: 'p2' } },
  ])
  await scene.drain()
  // A stored empty field is no value, so nothing is lost.
  expect(await names()).toEqual({ p1: 'Other', p2: 'Other', p3: 'part' })
  expect(await scene.rows(`select email from intake.patients where id in ('p1', 'p2')`)).toEqual([
    { email: 'a@example.com' },
    { email: 'a@example.com' },
  ])
  expect(await scene.asked()).toEqual(['patients p1 partial', 'patients p2 partial'])
})

test('a partial record that arrives together with a whole one nulls nothing, and its record is fetched', async () => {
  const { email: _, city: __, ...less } = patient('p1', { last_name: 'part' }) as Record<string, unknown>
  const whole = { email: 'a@example.com', city: 'Here' }
  await scene.store([patientEvent('p1', 1, whole), { ...patientEvent('p1', 2), data: less }])
  await scene.drain()
  expect(await scene.rows('select last_name, email, city from intake.patients')).toEqual([
    { last_name: 'Other', ...whole },
  ])
  expect(await scene.asked()).toEqual(['patients p1 partial'])
})

test('a new partial record is loaded as far as it goes, and fetched', async () => {
  await scene.store([{ ...patientEvent('p0', 1), data: { id: 'p0', last_name: 'alone' } }])
  await scene.drain()
  expect(await scene.asked()).toEqual(['patients p0 partial'])
  await scene.store([patientEvent('p0', 2), patientEvent('p1', 1)])
  await scene.drain()
  const { email: _, ...less } = patient('p2') as Record<string, unknown>
  await scene.store([patientEvent('p3', 1), { ...patientEvent('p2', 1), data: less }])
  await scene.drain()
  expect(await names()).toEqual({ p0: 'Other', p1: 'Other', p2: 'Other', p3: 'Other' })
  expect(await scene.asked()).toEqual(['patients p0 partial', 'patients p2 partial'])
})

test('a form that an event rewords leaves the columns of exports with its former text, and takes those with the new one', async () => {
  const formEvent = (second: number, text: string) => ({
    ...patientEvent('f', second, {}, { source: 'form' }),
    data: {
      ...{
        id: 'f',
        name: 'F',
        text: '',
        enabled: true,
        created_at: noonPlus(0),
        updated_at: noonPlus(second),
      },
      questions: [{ id: 'asked', text, question_type: { question_type: 'number' }, order: 1, choices: [] }],
    },
  })
  const drained = async (event: object) => {
    await scene.store([event])
    await scene.drain()
    return await scene.rows('select question_id from intake.export_columns')
  }
  await scene.session.client.query(
    `insert into intake.exports (team_id, id, form_id, _version, _origin) values ($1, 'e', 'f', now(), 'test')`,
    [scene.teamId],
  )
  expect(await drained(formEvent(1, 'How many siblings?'))).toEqual([])
  await loadExport(scene, ['p-1,,,,,,False,5551234567'])
  expect(await drained(formEvent(2, 'q'))).toEqual([{ question_id: 'asked' }])
  expect(await drained(formEvent(3, 'How many siblings?'))).toEqual([{ question_id: null }])
  expect(await scene.rows('select from intake_analytics.export_answers where is_shown')).toEqual([])
})

test('a summary of a record is not loaded, its record is fetched', async () => {
  await scene.store([
    patientEvent('r1', 1, {}, { source: 'response' }),
    { ...patientEvent('d1', 1, {}, { source: 'document' }), data: { id: 'd1', name: 'HIPAA', text: '' } },
    { ...patientEvent('f1', 1, {}, { source: 'form' }), data: { id: 'f1', name: 'Intake' } },
  ])
  await scene.drain()
  expect(await scene.asked()).toEqual(['documents d1 partial', 'forms f1 partial', 'responses r1 partial'])
  expect(await scene.rows('select 1 from intake_raw.records')).toEqual([])
})

test('whether a record is whole depends on the version that its own team requests, and a fetch is announced', async () => {
  const other = await teamIdOf(scene.session.db, 'other')
  const times = { created_at: noonPlus(0), updated_at: noonPlus(0) }
  const data = { id: 'd1', name: 'HIPAA', text: '', ...times }
  const document = { ...patientEvent('d1', 1, {}, { source: 'document' }), data }
  let announced = 0
  const drain = () =>
    scene.drain({
      onRefetchRequested: () => {
        announced += 1
      },
      teams: [
        { name: 'default', teamId: scene.teamId, apiVersion: '' },
        { name: 'other', teamId: other },
      ],
    })
  await scene.store([document])
  await drain()
  expect(announced).toBe(0)
  await scene.store([document], { teamId: other })
  await drain()
  expect(announced).toBe(1)
  expect(await scene.rows('select team_id from intake.documents')).toEqual([{ team_id: scene.teamId }])
  expect(await scene.rows('select team_id, id, origin from intake_ops.refetches')).toEqual([
    { team_id: other, id: 'd1', origin: `event:${document.id}` },
  ])
})

test('a packet response with a stamp in the future, whose event has no timestamp, is superseded by the next event', async () => {
  const data = { packet: { id: 'k' }, is_submitted: false, responses: ['m1'] }
  const event = { source: 'packet_response', event_type: 'updated' }
  const stamp = '2026-01-02T12:00:00Z'
  const first = { ...event, id: 'e1', data: { ...data, id: 'k9', form_index: 1, updated_at: stamp } }
  await scene.store([first], { receivedAt: noonPlus(3_600) })
  await scene.drain()
  await scene.store([
    { ...patientEvent('k9', 3_550), ...event, data: { ...data, id: 'k9', form_index: 2, updated_at: null } },
  ])
  await scene.drain()
  expect(await scene.rows('select form_index from intake.packet_responses')).toEqual([{ form_index: 2 }])
})

test('the members of a submitted packet are fetched, unless they were read after the submission, or its event', async () => {
  const submitted = (id: string, submitted_at: unknown) => ({
    ...patientEvent(id, 10),
    source: 'packet_response',
    data: { id, packet: { id: 'k' }, is_submitted: true, submitted_at, responses: [`of ${id}`] },
  })
  await scene.store([submitted('a', noonPlus(5)), submitted('b', noonPlus(20)), submitted('c', null)])
  await scene.drain()
  expect(await scene.rows('select id, reason, since::text from intake_ops.refetches order by id')).toEqual([
    { id: 'of a', reason: 'member', since: '2026-01-01 12:00:05+00' },
    { id: 'of b', reason: 'member', since: '2026-01-01 12:00:10+00' },
    { id: 'of c', reason: 'member', since: '2026-01-01 12:00:10+00' },
  ])
})

test('a partial packet response is loaded if none is stored, and dead-lettered if it would null a stored value', async () => {
  const packetEvent = (second: number, data: Record<string, unknown>) => ({
    ...patientEvent('k1', second),
    source: 'packet_response',
    data: { id: 'k1', ...data },
  })
  await scene.store([packetEvent(1, { is_submitted: false, form_index: 1 })])
  await scene.drain()
  const whole = { packet: { id: 'k' }, is_submitted: false, form_index: 3, responses: ['m1', 'm2'] }
  await scene.store([packetEvent(2, whole)])
  await scene.drain()
  await scene.store([packetEvent(3, { is_submitted: true })])
  await scene.drain()
  expect(await scene.rows('select packet_id, form_index, activity from intake.packet_responses')).toEqual([
    { packet_id: 'k', form_index: 3, activity: 'progress' },
  ])
  expect(
    await scene.rows('select response_id from intake.packet_response_members order by position'),
  ).toEqual([{ response_id: 'm1' }, { response_id: 'm2' }])
  expect(await deadLetters()).toMatchObject([
    { stream: 'packet_responses', record_id: 'k1', reason: expect.stringContaining('lacks values') },
  ])
  // Two events have the same result when they are drained at once as one after the other.
  const other = { ...whole, id: 'k2', form_index: 4 }
  await scene.store([packetEvent(4, other), packetEvent(5, { id: 'k2', is_submitted: true })])
  await scene.drain()
  expect(
    await scene.rows(`select packet_id, form_index, activity from intake.packet_responses where id = 'k2'`),
  ).toEqual([{ packet_id: 'k', form_index: 4, activity: 'progress' }])
  expect(await deadLetters()).toHaveLength(2)
})
