/**
 * Two teams whose rows carry marks, loaded as events through `serve`, and an analyst of the first.
 *
 * A mark is a text that occurs nowhere else, so that finding it proves a leak.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { post } from './traffic.ts'

export interface Mark {
  readonly name: string
  readonly value: string
}

export interface World {
  /** The address of the analyst of the first team. */
  readonly analyst: string
  /** A login that sees the second team. */
  readonly southern: string
  readonly south: number
  readonly owner: { readonly login: string; readonly largeObject: string }
  readonly marks: readonly Mark[]
  readonly end: () => Promise<void>
}

/** What a query answers for a row of the other team. */
export const SOUTH_ROW = 'a row of the other team'

const event = (source: string, data: object) =>
  Buffer.from(
    JSON.stringify({
      ...{ id: randomUUID(), timestamp: new Date().toISOString(), event_type: 'created', source, data },
    }),
  )

/** The events of a team, with what its analysts may not see and what other teams may not see. */
function plantedAs(team: string) {
  const at = { created_at: '2026-01-02T03:04:05Z', updated_at: '2026-01-02T03:04:05Z' }
  const own = (name: string) => `${team}-${name}-mark`
  const patient = {
    ...{ id: own('patient'), external_id: own('external'), first_name: own('first'), last_name: own('last') },
    ...{
      email: `${own('mail')}@example.com`,
      phone_number: own('phone'),
      address: own('street'),
      city: own('city'),
    },
    ...{ zipcode: own('zip'), date_birth: '1948-03-07', tags: [{ name: own('tag'), color: 'red' }], ...at },
    custom_fields: { [own('field')]: own('custom') },
  }
  const question = (name: string, text: string) => ({
    ...{ id: own(name), text, help_text: '', order: 1, choices: [] },
    question_type: { question_type: 'short_text', question_subtype: null },
  })
  const events = [
    event('patient', patient),
    event('form', {
      ...{ id: own('form'), name: `A form of the ${team}`, text: '', enabled: true, ...at },
      questions: [question('question', 'Anything else?'), question('asked', 'Your number?')],
    }),
    event('response', {
      ...{
        id: own('response'),
        form_id: own('form'),
        form_name: `Intake of ${team}`,
        is_submitted: true,
        ...at,
      },
      patient: { id: patient.id, email: patient.email },
      answers: [
        {
          id: own('answer'),
          question: { id: own('question'), text: 'Anything else?' },
          answer_text: own('text'),
        },
        {
          id: own('number'),
          question: { id: own('asked'), text: 'Your number?' },
          answer_text: '5551234567',
        },
      ],
    }),
    event('message', {
      ...{ id: own('message'), patient: { id: patient.id }, message_type: 'form', status: 'sent', ...at },
      ...{ target_email: patient.email, target_phone_number: patient.phone_number, content: own('content') },
    }),
  ]
  const identifiers = [
    'patient',
    'external',
    'first',
    'last',
    'mail',
    'phone',
    'street',
    'zip',
    'custom',
    'text',
    'content',
  ]
  return {
    events,
    hidden: [...identifiers.map(own), '1948-03-07', '5551234567'],
    others: [
      ...['response', 'message', 'tag', 'city', 'answer', 'number', 'form'].map(own),
      `Intake of ${team}`,
    ],
  }
}

export async function makeWorld({
  url,
  north,
  openSouth,
  grant,
  migrate,
}: {
  readonly url: string
  readonly north: { readonly url: string; readonly secret: string }
  /** A `serve` of the second team, which drains what it was sent before it ends. */
  readonly openSouth: () => Promise<{ url: string; secret: string; close: () => Promise<void> }>
  readonly grant: (login: string, team: string) => void
  /** Makes the wide views of both teams. */
  readonly migrate: () => void
}): Promise<World> {
  const owner = new pg.Client({ connectionString: url })
  await owner.connect()
  const [ours, theirs] = [plantedAs('north'), plantedAs('south')]
  const sendAll = async (to: { url: string; secret: string }, events: readonly Buffer[]) => {
    for (const each of events) {
      const status = await post(to.url, each, to.secret)
      if (status !== 200) throw new Error(`a planted event was answered ${status}`)
    }
  }
  await sendAll(north, ours.events)
  const other = await openSouth()
  await sendAll(other, theirs.events)
  const isLoaded = async () => {
    const { rows } = await owner.query<{ loaded: number }>(
      `select (select count(*) from intake.messages where id like '%-message-mark')::int
         + (select count(*) from intake.response_answers where answer_id like '%-answer-mark')::int
         + (select count(*) from intake.forms where id like '%-form-mark' and name is not null)::int as loaded`,
    )
    return rows[0]!.loaded === 6
  }
  for (const end = Date.now() + 60_000; !(await isLoaded()); await sleep(100))
    if (Date.now() > end) throw new Error('the planted events were not loaded in a minute')
  await other.close()
  migrate()
  const { rows: teams } = await owner.query<{ team_id: number }>(
    `select team_id from intake.teams where name = 'south'`,
  )
  const [analyst, southern] = ['north', 'south'].map(
    (team) => `attacker_${team}_${randomUUID().slice(0, 8)}`,
  ) as [string, string]
  for (const login of [analyst, southern])
    await owner.query(`create role ${login} login password 'p' in role intake_analyst`)
  grant(analyst, 'default')
  grant(southern, 'south')
  // A session whose query contains what the analyst may not see, and a large object of the owner.
  const busy = new pg.Client({ connectionString: url })
  busy.on('error', () => {})
  await busy.connect()
  const running = busy
    .query(`select pg_sleep(600) /* ${ours.hidden[0]} ${theirs.hidden[0]} */`)
    .catch(() => {})
  const object = await owner.query<{ lo: string }>(
    `select lo_from_bytea(0, 'south-patient-mark')::text as lo`,
  )
  const { rows: self } = await owner.query<{ login: string }>('select quote_ident(current_user) as login')
  await owner.query('analyze')
  return {
    ...{ analyst: Object.assign(new URL(url), { username: analyst, password: 'p' }).href, southern },
    south: teams[0]!.team_id,
    owner: { login: self[0]!.login, largeObject: object.rows[0]!.lo },
    marks: [
      ...ours.hidden.map((value) => ({ name: `${value} of its own team`, value })),
      ...[...theirs.hidden, ...theirs.others].map((value) => ({ name: `${value} of another team`, value })),
      { name: 'a row of another team', value: SOUTH_ROW },
    ],
    async end() {
      await owner.query(
        'select pg_terminate_backend(pid) from pg_stat_activity where query like $1 and pid <> pg_backend_pid()',
        ['select pg_sleep(600)%'],
      )
      await running
      await busy.end().catch(() => {})
      await owner.query('select lo_unlink($1::oid)', [object.rows[0]!.lo])
      for (const login of [analyst, southern]) {
        await owner.query('delete from intake_ops.access where login = $1', [login])
        await owner.query(`drop owned by ${login}; drop role ${login}`)
      }
      await owner.end()
    },
  }
}
