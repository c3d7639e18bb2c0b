/**
 * Two teams in one warehouse whose records, events, forms, questions, exports and dead letters have the same ids and
 * different contents, to prove that work for one team does not change the other.
 *
 * Invariant: everything was loaded by the real pipeline, in the same way for both teams; every table that has rows of one
 * team has rows of the other.
 */

import { randomUUID } from 'node:crypto'
import pino from 'pino'
import { importInstrument } from '../../src/analytics/instruments.ts'
import { systemClock } from '../../src/core/clock.ts'
import { DECLARED } from '../../src/emulator/world/declared-catalogue.ts'
import type { TeamSource } from '../../src/extract/backfill-options.ts'
import { type DrainOptions, openDrain } from '../../src/ingest/drain/drain.ts'
import { readEvent } from '../../src/ingest/inbox/event.ts'
import { storeDeadLetters } from '../../src/load/dead-letters.ts'
import { runRound } from '../../src/operate/alerts/round.ts'
import { openReceived } from '../../src/operate/health/received.ts'
import { openWebhookChecks } from '../../src/operate/health/webhook-checks.ts'
import { takeTick } from '../../src/operate/serve/schedule.ts'
import { verify } from '../../src/reconcile/verify/verify.ts'
import { ALL_STREAMS, PERSONS, STREAMS } from '../../src/streams/catalogue.ts'
import { openBoundedQueries } from '../../src/warehouse/bounded-queries.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { json } from '../api/support/service.ts'
import { type LittleRecord, type LittleService, startLittleService } from '../e2e/support/little-service.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import { configOf } from '../e2e/support/teams.ts'
import { openReceiver, SECRET } from '../operate/alerts/receiver.ts'
import type { Ended } from './cli.ts'
import { runCommand } from './run-command.ts'

export const NAMES = ['north', 'south'] as const
export type Name = (typeof NAMES)[number]

export interface Twin {
  readonly name: Name
  readonly teamId: number
  readonly service: LittleService
  readonly source: TeamSource
  /** Stores events as received now. */
  store(...events: readonly (object | string)[]): Promise<void>
  /** Drains the events of this team only. */
  drain(options?: Partial<DrainOptions>): Promise<void>
}

export interface Twins extends AsyncDisposable {
  readonly url: string
  readonly north: Twin
  readonly south: Twin
  other(twin: Twin): Twin
  /** A command, with both teams in its configuration. */
  run(...words: readonly string[]): Promise<Ended>
  /** The same; throws unless it ends with one of these codes. */
  done(codes: readonly number[], ...words: readonly string[]): Promise<string>
}

export const silent = pino({ level: 'silent' })
export const unwatched = { drained: () => {}, refetched: () => {}, defect: () => {} }
export const ENCRYPTION_KEY = Buffer.alloc(32, 7).toString('base64')

export async function openTwins(): Promise<Twins> {
  const warehouse = await openWarehouse()
  const { url } = warehouse
  const opened: Twin[] = []
  for (const name of NAMES) {
    const service = await startLittleService()
    fillTwin(service, name)
    const [row] = await query<{ team_id: number }>(
      url,
      'insert into intake.teams (name) values ($1) returning team_id',
      [name],
    )
    opened.push(twinOf(url, name, row!.team_id, service))
  }
  const [north, south] = opened as [Twin, Twin]
  const env = {
    ...configOf(opened.map(({ source }) => source)),
    DATABASE_URL: url,
    INTAKE_ENCRYPTION_KEY: ENCRYPTION_KEY,
    INTAKE_ANALYTICS_KEY: 'a key that only this test has',
    LOG_LEVEL: 'error',
  }
  const run = (...words: readonly string[]) => runCommand(words, env)
  return {
    url,
    north,
    south,
    other: (twin) => (twin === north ? south : north),
    run,
    async done(codes, ...words) {
      const ended = await run(...words)
      if (codes.includes(ended.code ?? -1)) return ended.stdout
      throw new Error(`${words.join(' ')} ended with ${ended.code}: ${ended.output}`)
    },
    async [Symbol.asyncDispose]() {
      for (const { service } of opened) await service[Symbol.asyncDispose]()
      await warehouse.drop()
    },
  }
}

function twinOf(url: string, name: Name, teamId: number, service: LittleService): Twin {
  const { env } = service
  const access = { apiKey: env.INTAKE_API_KEY!, apiSecret: env.INTAKE_API_SECRET! }
  const source = { name, baseUrl: env.INTAKE_BASE_URL!, ...access, apiVersion: 'v2.1', concurrency: 4 }
  return {
    ...{ name, teamId, service, source },
    async store(...events) {
      for (const event of events) {
        const body = Buffer.from(typeof event === 'string' ? event : JSON.stringify(event))
        const { eventId, bodyHash, eventType, source, recordId } = readEvent(teamId, body)
        await query(
          url,
          `insert into intake_raw.inbox
             (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id, body)
           values ($1, $2, decode($3, 'hex'), (now() at time zone 'UTC')::date, now(), $4, $5, $6, $7)
           on conflict do nothing`,
          [teamId, eventId, bodyHash, eventType, source, recordId, body],
        )
      }
    },
    async drain(options = {}) {
      await using drain = openDrain({
        ...{ url, teams: [{ name, teamId }], clock: systemClock, logger: silent, watch: unwatched },
        ...options,
      })
      await drain.idle()
    },
  }
}

const CREATED = '2026-01-01T00:00:00Z'
const at = { created_at: CREATED, updated_at: '2026-01-02T00:00:00Z' }
/** Patients that both teams have under the same ids: enough for a second page. */
export const PATIENTS = 14

/** Patients of both teams to whom records, events, dead letters and verifications refer. */
export const ERASABLE = ['p6', 'p7', 'p8', 'p13'] as const

/** A patient as the service of this team shows it. */
export function patientOf(name: Name, id: string, fields: object = {}) {
  return {
    ...{ id, external_id: `${name}-${id}`, first_name: name, last_name: `${name} ${id}` },
    ...{
      email: `${id}@${name}.example.com`,
      phone_number: `${name} phone`,
      provider: name,
      sex_at_birth: 'F',
    },
    ...{ address: name, address2: '', city: name, state: 'VT', zipcode: '05401', date_birth: '1980-02-29' },
    custom_fields: { plan: `${name} plan` },
    emergency_contact: { first_name: name, last_name: `contact of ${id}`, relationship: 'friend' },
    patient_tags: [
      { name: `${name} tag`, color: '#ff0000' },
      { name: 'tag of both', color: '#00ff00' },
    ],
    ...at,
    ...fields,
  }
}

const QUESTIONS = [
  { id: 'story', type: 'long_text' },
  { id: 'weight', type: 'number' },
  { id: 'payer', type: 'single_choice' },
  { id: 'drugs', type: 'matrix' },
  { id: 'card', type: 'file' },
  { id: 'signed', type: 'signature' },
] as const

const textOf = (name: Name, question: string) => `What ${name} asks as ${question}`
const asked = (name: Name, question: string) => ({ id: question, text: textOf(name, question) })

export function responseOf(name: Name, id: string, patient: string, fields: object = {}) {
  return {
    ...{ id, form: { id: 'f', name: 'Intake' }, form_name: 'Intake', is_submitted: true, ...at },
    ...{ is_skipped: false, is_archived: false, packet: null, document: null },
    patient: { id: patient, first_name: name, last_name: `${name} ${patient}` },
    submitted_at: '2026-01-02T00:00:00Z',
    answers: [
      { id: 'a1', question: asked(name, 'story'), answer_text: `${name} said so`, answer_choices: [] },
      {
        ...{ id: 'a2', question: asked(name, 'weight'), answer_choices: [] },
        answer_text: name === 'north' ? '81.5' : '64',
      },
      {
        ...{ id: 'a3', question: asked(name, 'payer'), answer_text: null },
        answer_choices: [{ question_choice: { id: 'c1', text_value: `${name} payer` } }],
      },
    ],
    matrix_cells: [
      {
        question: asked(name, 'drugs'),
        ...{ row: { id: 'r', text: name }, column: { id: 'k', text: name }, answer_text: name },
      },
    ],
    files: [
      {
        ...{
          id: 'x',
          question: asked(name, 'card'),
          name: `${name}.png`,
          content_type: 'image/png',
          size: 1,
        },
        url: `https://files.example.com/${name}?X-Amz-Signature=s`,
      },
    ],
    e_signatures: [{ id: 's', question: asked(name, 'signed'), signer_name: name, image: `data:${name}` }],
    ...fields,
  }
}

/**
 * Responses that views join to other records or number among others. The other team's stand between them, so that what
 * is joined or numbered without the team comes out otherwise.
 */
function joinedResponses(name: Name) {
  const created = (hour: number) => ({ created_at: `2026-01-01T0${hour}:00:00Z` })
  const joined = { packet: { id: 'k' }, document: { id: 'd' } }
  const other = name === 'north' ? 'south' : 'north'
  const inPacket = (id: string, form: string, hour: number) =>
    responseOf(name, id, 'p2', { ...joined, form: { id: form, name: 'Intake' }, ...created(hour) })
  return [
    inPacket('k-f', 'f', name === 'north' ? 1 : 3),
    inPacket('k-g', 'g', name === 'north' ? 2 : 4),
    ...(name === 'south' ? [inPacket('k-f-before', 'f', 0)] : []),
    // In the words of the other team, which this team's people have not decided on.
    responseOf(name, 'reworded', 'p3', {
      answers: [
        {
          id: 'a1',
          question: asked(other, 'story'),
          answer_text: `${name} in other words`,
          answer_choices: [],
        },
      ],
    }),
  ]
}

/** An entry in the place of a patient that cannot be loaded; identical for both teams. */
export const NOBODY = { first_name: 'has no id' }

/** Streams without records of their own here. */
const FURTHER = STREAMS.filter(({ name }) => DECLARED.some(({ resource }) => resource === name))

function fillTwin(little: LittleService, name: Name): void {
  const { records } = little
  for (let at = 1; at <= PATIENTS; at += 1) records.patients.push(patientOf(name, `p${at}`))
  records.patients.push(NOBODY as never)
  // A problem, and drift.
  records.patients[2] = patientOf(name, 'p3', { date_birth: `not a day of ${name}`, favourite: name })
  records.forms.push({
    ...{ id: 'f', name: 'Intake', text: name, enabled: true, ...at },
    questions: QUESTIONS.map(({ id, type }, place) => ({
      ...{ ...asked(name, id), help_text: name, order: place + 1 },
      question_type: { question_type: type, question_subtype: null },
      choices: id === 'payer' ? [{ id: 'c1', text_value: `${name} payer` }] : [],
    })),
  })
  records.packets.push({ id: 'k', name: `${name} packet`, text: name, forms: [{ id: 'f' }], ...at })
  records.documents.push({
    ...{ id: 'd', name: `${name} document`, text: name, ...at },
    input_fields: [{ id: 'i', name, label: `${name} label`, field_type: 'text', required: true, page: 1 }],
  })
  for (let at = 1; at <= 4; at += 1) records.responses.push(responseOf(name, `r${at}`, `p${at}`))
  for (const id of ERASABLE) records.responses.push(responseOf(name, `r-${id}`, id))
  records.responses.push(...joinedResponses(name))
  records.messages.push(
    ...['p1', ...ERASABLE].map((patient) => ({
      ...{ id: `m-${patient}`, patient: { id: patient, first_name: name }, form: { id: 'f' }, ...at },
      ...{ message_type: 'form_response_request', preferred_delivery_method: 'email', status: 'sent' },
      ...{ target_email: `${patient}@${name}.example.com`, target_phone_number: null, content: name },
      sent_at: CREATED,
    })),
  )
  for (const id of ['e', 'e2']) {
    const form = { id: 'f', name: 'Intake' }
    records.exports.push({ id, name: `${name} export`, form, created_at: CREATED })
  }
  for (const { list, columns } of FURTHER) {
    const all = records as Record<string, LittleRecord[]>
    const texts = columns.filter(({ type }) => type === 'text').map((column) => [column.name, name])
    const persons = columns.filter(({ to }) => to === PERSONS.name).map((column) => [column.name, 'p1'])
    all[list!.name]!.push({ id: 'x', ...Object.fromEntries([...texts, ...persons]), ...at })
  }
  records.webhookConfigs.push({
    ...{ id: 'w', target_url: `https://${name}.example.com`, event_types: ['updated'] },
    ...{ sources: ['patient'], is_active: true, created_at: CREATED },
  })
  records.webhookDeliveries.push({
    ...{ id: 'v', event_id: 'event-1', webhook_config_id: 'w', event_type: 'updated', source: 'patient' },
    ...{ status: 'delivered', response_status_code: 200, attempts: 1, error: null, created_at: CREATED },
  })
  const file = [
    `Client ID,First Name,Last Name,Email,Sent at,Completed at,Archived,${textOf(name, 'story')},${textOf(name, 'weight')}`,
    ...['p1', ...ERASABLE].map(
      (id) => `${id},${name},${id},${id}@example.com,2026-01-01 00:00:00,,False,${name} said,${id.length}`,
    ),
    '',
  ].join('\n')
  let configs = 0
  little.interfere = ({ method, url }, response) => {
    const { pathname } = new URL(url, little.url)
    if (method === 'POST' && pathname === '/v2/export-csv') {
      response.writeHead(200, { 'content-type': 'text/plain' }).end(file)
    } else if (method === 'POST' && pathname === '/v2/webhooks') {
      configs += 1
      json(
        response,
        { ...records.webhookConfigs[0], id: `w${configs}`, signature_secret: `${name} secret` },
        201,
      )
    } else if (method === 'DELETE') {
      response.writeHead(204).end()
    } else if (pathname === '/v2/packets') {
      // The list shows only a part of a packet: it is fetched by its id, and its entry is kept.
      const results = records.packets.map(({ forms: _forms, ...entry }) => entry)
      json(response, { count: results.length, next: null, previous: null, results })
    } else return false
    return true
  }
}

const MOMENT = (seconds: number) => new Date(Date.UTC(2026, 0, 3, 0, 0, seconds)).toISOString()

/** An instrument of one item that the forms of both ask. */
async function scorePayers(url: string, names: readonly Name[]): Promise<void> {
  await using session = await openSession({ url, purpose: 'test' })
  const definition = {
    ...{ instrument: 'payer', title: 'Payer', source: 'A test', least_answered: 1, bands: [] },
    points: Object.fromEntries(names.map((name, points) => [`${name} payer`, points])),
    items: [{ wordings: names.map((name) => textOf(name, 'payer')) }],
  }
  await importInstrument(session.db, JSON.stringify(definition))
}

/**
 * Every kind of failure and every decision of a person, so that each table has rows of the team. Pending work stays
 * pending: events, dead letters, records to be fetched, alerts.
 */
export async function troubleTwins(twins: Twins): Promise<void> {
  const { url, north, south, done } = twins
  await scorePayers(url, [north.name, south.name])
  await done([4], 'backfill')
  for (const { name, teamId, service, store, drain } of [north, south]) {
    await store(...eventsOf(name, 'first'))
    await drain()
    const { records } = service
    // On the second scan one record is gone, one has changed, and an export is missed once.
    records.patients = records.patients.filter(({ id }) => id !== 'p10')
    change(service, 'p11', { city: `${name} moved`, updated_at: MOMENT(90) })
    records.exports = records.exports.filter(({ id }) => id !== 'e2')
    await query(url, 'insert into intake_ops.access (login, team_id) values ($1, $2)', ['somebody', teamId])
    await query(
      url,
      "insert into intake_ops.defects (team_id, kind, place) values ($1, 'TypeError', 'a:1')",
      [teamId],
    )
    await query(
      url,
      "insert into intake_raw.removed_records (team_id, stream, key) values ($1, 'patients', 'of an erased patient')",
      [teamId],
    )
    await query(
      url,
      "insert into intake_ops.removed_events (team_id, event_hash) values ($1, 'of an event')",
      [teamId],
    )
    await query(
      url,
      "insert into intake_ops.pruned_logs (team_id, stream, before) values ($1, 'webhook_deliveries', '2001-01-01')",
      [teamId],
    )
    await query(
      url,
      "insert into intake_ops.former_identities (team_id, id, hash) values ($1, 'p1', 'of an external id')",
      [teamId],
    )
  }
  // A slow machine would fetch more of them than a fast one.
  await query(url, 'update intake_ops.refetches set due_at = now()')
  await done([4], 'backfill', '--full')
  await using bounded = openBoundedQueries(url)
  await using received = openReceived({ bounded, logger: silent })
  for (const { name, teamId, service } of [north, south]) {
    received.note(name, false)
    await takeTick(url, { job: 'backfill', due: new Date(), teams: [name], by: randomUUID() })
    const address = `https://${name}.example.com/hooks`
    await done(
      [0],
      'webhooks',
      'create',
      '--team',
      name,
      '--url',
      address,
      '--events',
      'all',
      '--sources',
      'all',
    )
    await done([0], 'classify', 'set', 'story', 'visible', '--concept', `${name} story`, '--team', name)
    await done([0], 'erase', 'patient', 'p12', '--yes', '--team', name)
    // Seen again, it no longer waits.
    const [deadLetter] = await deadLettersOf(url, teamId, 'waiting', 'an event whose record has no id')
    await done([0], 'dead-letters', 'discard', String(deadLetter))
    for (const id of ERASABLE) change(service, id, { city: `${name} differs`, updated_at: MOMENT(95) })
    await setAsideOf(url, teamId, name)
    // Its newest run is not the other's.
    await done([0, 4], 'backfill', '--team', name, '--streams', 'forms')
  }
  await received.close()
  await verifyTwins(twins, [north, south])
  await alertTwins(twins, [north.name, south.name])
  for (const { name, teamId, store } of [north, south]) {
    await store(...eventsOf(name, 'second', 60))
    for (const [table, columns, values] of [
      ['delivery_checks', 'event_id', "'not found'"],
      ['delivery_configs', 'first_at, last_at', "'2001-01-01', '2001-01-01'"],
    ])
      await query(
        url,
        `insert into intake_ops.${table} (team_id, config_id, ${columns}) values ($1, 'w', ${values}) on conflict do nothing`,
        [teamId],
      )
    await query(
      url,
      `insert into intake_ops.refetches (team_id, stream, id, reason, origin, due_at)
       values ($1, 'patients', 'p5', 'contested', 'event:x', now() + interval '1 day') on conflict do nothing`,
      [teamId],
    )
    await query(
      url,
      `with tag as (insert into intake_ops.research_tags (team_id, name) values ($1, 'planted'))
       insert into intake_ops.research_questions (team_id, form_id, question_id, wording, shows)
       values ($1, 'planted', 'planted', '\\x00', 'hidden')`,
      [teamId],
    )
    // A run stores these only when it takes more than a second.
    await query(
      url,
      `with run as (select max(run_id) as id from intake_ops.runs), slice as (
         insert into intake_ops.slices (run_id, team_id, stream, spec, state)
         select id, $1::int, 'patients', '{}', 'done' from run
       ), scan as (
         insert into intake_ops.scans (team_id, stream, request, started_at, began_at, first_page, pages)
         values ($1::int, 'patients', 'planted', now(), now(), '{}', 1)
       ), page as (
         insert into intake_ops.scan_pages (team_id, stream, page, facts, ids)
         values ($1::int, 'patients', 1, '{}', '{planted}')
       ), line as (
         insert into intake_ops.run_log (run_id, line, at, level, team_id, stream, message)
         select id, 1000 + $1::int, now(), 'info', $1::int, 'patients', 'planted' from run
       )
       insert into intake_ops.run_progress
         (run_id, team_id, stream, phase, pages, requests, throttled, fetched, began_at)
       select id, $1::int, 'patients', 'ended', 1, 1, 0, 1, now() from run on conflict do nothing`,
      [teamId],
    )
  }
  // They are read at the same time, so that either may be the later one.
  await query(url, 'update intake_ops.drift set last_seen = now()')
}

/** Dead letters with the ids of their records. */
async function setAsideOf(url: string, teamId: number, name: Name): Promise<void> {
  await using session = await openSession({ url, purpose: 'test' })
  const deadLetters = ['p4', ...ERASABLE].map((recordId) => {
    const body = JSON.stringify(patientOf(name, recordId))
    return { recordId, origin: 'event:x', reason: `was refused of ${name}`, body }
  })
  await storeDeadLetters(session.db, { teamId, stream: 'patients', runId: null }, deadLetters)
}

/** Changes a record that is listed. */
export function change({ records }: LittleService, id: string, fields: object): void {
  records.patients = records.patients.map((each) => (each.id === id ? { ...each, ...fields } : each))
}

/** Runs `verify` without its pauses before the second look. Returns true if all was equal or was repaired. */
export async function verifyTwins(
  { url }: Twins,
  teams: readonly Twin[],
  { repair = false } = {},
): Promise<boolean> {
  const summary = await verify({
    url,
    teams: teams.map(({ source }) => source),
    streams: ALL_STREAMS,
    repair: repair ? { allowMassDelete: false } : null,
    deep: true,
    clock: { ...systemClock, sleep: (_, signal) => systemClock.sleep(1, signal) },
    ...{ random: Math.random, logger: silent, signal: new AbortController().signal, onProgress: () => {} },
  })
  return summary.status === 'succeeded'
}

/** Runs one alert round of a process with these teams; a receiver takes its posts. */
export async function alertTwins({ url }: Twins, teams: readonly string[]): Promise<void> {
  await using receiver = await openReceiver()
  const settings = { url: receiver.url, secret: SECRET, inboxSeconds: 0, maxAgeHours: null }
  const options = {
    url,
    settings,
    teams,
    webhookChecks: openWebhookChecks({ inboxDays: 30 }),
    clock: systemClock,
    logger: silent,
  }
  const outcome = await runRound(
    { ...options, signal: new AbortController().signal, version: '0.0.0' },
    { thorough: true, insist: true },
  )
  if (outcome !== 'posted') throw new Error(`a round with something to post was ${outcome}`)
}

/** Ids of a team's dead letters with a status, whose reason begins with the given text. */
export async function deadLettersOf(
  url: string,
  teamId: number,
  status: string,
  reason: string,
): Promise<readonly number[]> {
  const rows = await query<{ id: number }>(
    url,
    `select id::int as id from intake_ops.dead_letters
     where team_id = $1 and status = $2 and starts_with(reason, $3) order by id`,
    [teamId, status, reason],
  )
  return rows.map(({ id }) => id)
}

/** Events of both teams with the same ids, one of each kind that a drain meets. */
export function eventsOf(name: Name, round: string, seconds = 0): readonly (object | string)[] {
  const event = (id: string, source: string, data: unknown, type = 'updated', after = 0) => {
    return { id: `${round}-${id}`, timestamp: MOMENT(seconds + after), event_type: type, source, data }
  }
  const packet = (id: string, submitted: boolean) => ({
    ...{
      id,
      packet: { id: 'k' },
      is_submitted: submitted,
      is_archived: false,
      form_index: 2,
      is_queued: false,
    },
    ...{ submitted_at: submitted ? MOMENT(0) : null, ...at, name, responses: ['r1', 'r2'] },
  })
  return [
    event(
      'changed',
      'patient',
      patientOf(name, 'p4', { city: `${name} ${round}`, updated_at: MOMENT(seconds) }),
    ),
    // Names only this team.
    event(
      `of ${name}`,
      'patient',
      patientOf(name, 'p4', { city: name, updated_at: MOMENT(seconds) }),
      'updated',
      1,
    ),
    event('new', 'patient', patientOf(name, `new-${round}`, { updated_at: MOMENT(seconds) })),
    // Gives an id and only a part of the record: fetched by id.
    event('named', 'patient', { id: 'p5' }),
    event('partial', 'patient', { id: 'p6', first_name: `${name} ${round}` }),
    // Two contents with one timestamp: fetched by id.
    event('tie', 'patient', patientOf(name, 'p7', { city: `${name} one`, updated_at: MOMENT(seconds) })),
    event('tied', 'patient', patientOf(name, 'p7', { city: `${name} two`, updated_at: MOMENT(seconds) })),
    event('gone', 'patient', { id: `gone-${round}` }, 'deleted'),
    event('packet', 'packet_response', packet(`k-${round}`, true)),
    event('answered', 'response', responseOf(name, 'r4', 'p4', { updated_at: MOMENT(seconds) })),
    // An entry that cannot be loaded; identical for both teams.
    event('no id', 'patient', { first_name: 'of nobody' }),
    ...ERASABLE.map((id) => event(`of ${id}`, 'response', { patient: { id } })),
    event(
      'drifting',
      'patient',
      patientOf(name, 'p8', { hobby: name, updated_at: MOMENT(seconds) }),
      'moved',
    ),
    `{"id": "${round}-cut", "source": "patient", "data": {"id": "p9"`,
  ]
}
