/** Everything that an analyst can see, and nothing that nobody may see (law 8). */
import { createHmac } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { CANARY, rowsWithCanary, SEEN } from '../e2e/support/canary.ts'
import { type LittleService, startLittleService } from '../e2e/support/little-service.ts'
import { connect, openWarehouse, query } from '../e2e/support/scene.ts'
import { until } from '../e2e/support/serving.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { EXPORT, fillClinic } from './clinic.ts'
import { everything, type Login, makeLogin } from './logins.ts'

const KEY = 'a key that only this test has: it is longer than the block of sixty-four bytes'

let service: LittleService
let warehouse: TestDatabase
let analyst: Login

const run = async (...words: string[]) => {
  // On a slow machine a backfill reports its progress, at level info.
  const access = { ...service.env, DATABASE_URL: warehouse.url, INTAKE_ANALYTICS_KEY: KEY }
  const ended = await runCommand(words, { ...access, LOG_LEVEL: 'warn' })
  expect(ended).toMatchObject({ code: 0, stderr: '' })
  return ended.stdout
}

beforeAll(async () => {
  warehouse = await openWarehouse()
  service = await startLittleService()
  fillClinic(service)
  service.interfere = ({ method }, response) => {
    if (method === 'POST') response.writeHead(200, { 'content-type': 'text/plain' }).end(EXPORT)
    return method === 'POST'
  }
  await run('backfill')
  analyst = await makeLogin(warehouse.url, 'intake_analyst')
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await warehouse.drop()
})

describe('an analyst', () => {
  it('is denied every access to identified, raw or operational data', async () => {
    const tables = await query<{ name: string }>(
      warehouse.url,
      `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
       where n.nspname in ('intake', 'intake_raw', 'intake_ops') and c.relkind in ('r', 'v', 'p', 'S')`,
    )
    expect(tables.length).toBeGreaterThan(50)
    const attempts = tables.flatMap(({ name }) => [
      `select * from ${name}`,
      `select count(*) from ${name}`,
      `table ${name}`,
      `copy ${name} to stdout`,
      `delete from ${name}`,
      `create temporary table mine (like ${name})`,
      `create temporary view mine as select * from ${name}`,
    ])
    const refused = new Set((await analyst.endings(attempts)).map(String))
    // 0A000: a view or a sequence cannot be copied; 42809: cannot be deleted from.
    for (const state of refused) expect(['42501', '0A000', '42809']).toContain(state)
  })

  it('reads only the views, through which nobody may write', async () => {
    const views = await analyst.rows<{ name: string }>(
      `select format('%I.%I', schemaname, viewname) as name from pg_views where schemaname in ('intake_analytics', 'intake_exports', 'intake_forms')`,
    )
    expect(views.length).toBeGreaterThanOrEqual(10)
    const ends = await analyst.endings(
      views.flatMap(({ name }) => [`select from ${name}`, `delete from ${name}`]),
    )
    expect(ends.filter((_, at) => at % 2 === 0)).toEqual(views.map(() => null))
    for (const end of ends.filter((_, at) => at % 2 === 1)) expect(['42501', '55000']).toContain(end)
  })

  it('finds the canary nowhere, though every table below is full of it', async () => {
    const canaryRows = await rowsWithCanary(warehouse.url, 'intake')
    for (const table of [
      ...[
        'patients',
        'patient_emergency_contacts',
        'patient_custom_fields',
        'messages',
        'responses',
        'export_rows',
      ],
      ...[
        'response_answers',
        'response_matrix_cells',
        'response_files',
        'response_signatures',
        'export_cells',
      ],
    ]) {
      expect(canaryRows[table], table).toBeGreaterThan(0)
    }
    const schemas = ['intake_analytics', 'intake_exports', 'intake_forms']
    const seen = (await Promise.all(schemas.map((schema) => everything(analyst, schema)))).join('\n')
    expect(seen).toContain('Intake')
    expect(seen).toMatch(/^intake_forms\.form_intake .*"payer": \["HMO"/m)
    expect(seen.split('\n').filter((line) => SEEN.test(line))).toEqual([])
  })

  it('sees each form as a wide view: one column a question, with what answers shows of it', async () => {
    expect(
      await analyst.rows(`select * from intake_forms.form_intake where response_id = 'r1'`),
    ).toMatchObject([
      {
        ...{ team_id: 1, is_submitted: true, name: null, what_brings_you_here: null, date_of_birth: null },
        ...{
          weight_kg: [81.5],
          i_smoke: [true],
          payer: ['HMO', 'PPO'],
          devices: ['Cane', 'Walker, with wheels'],
        },
        ...{ medicines: null, card: true, signature: true },
        patient: createHmac('sha256', KEY).update('1:p').digest('hex'),
      },
    ])
  })

  it('finds it in no name, comment or definition, which Postgres shows to everybody', async () => {
    const answer = await analyst.rows<{ text: string | null }>(
      `select relname::text as text from pg_class union all select attname::text from pg_attribute
       union all select description from pg_description union all select pg_get_viewdef(oid) from pg_class where relkind = 'v'`,
    )
    expect(answer.some(({ text }) => text?.includes('form_intake'))).toBe(true)
    expect(answer.filter(({ text }) => SEEN.test(text ?? ''))).toEqual([])
  })

  it('finds no id of a patient, no full ZIP code and no day of birth', async () => {
    const seen = await everything(analyst, 'intake_analytics')
    expect(seen).not.toMatch(/in a (small|large) area|of ninety|unborn/)
    // Quoted, as texts are: a time's microseconds and a hash may hold the same digits.
    expect(seen).not.toMatch(/"patient": "p"|"(03601|10001|90210)|1980-02-29|1950-06-15/)
  })

  it('finds the canary in no error, whatever the query', async () => {
    const columns = await analyst.rows<{ view: string; name: string }>(
      `select format('%I.%I', table_schema, table_name) as view, column_name as name from information_schema.columns
       where table_schema in ('intake_analytics', 'intake_exports', 'intake_forms')`,
    )
    const errors = await analyst.errors(
      columns.flatMap(({ view, name }) =>
        ['int', 'date', 'boolean', 'jsonb'].map((type) => `select (${name}::text)::${type} from ${view}`),
      ),
    )
    expect(errors.length).toBeGreaterThan(100)
    expect(errors.filter((error) => SEEN.test(error))).toEqual([])
  })
})

describe('patients', () => {
  it('have an age band, three digits of a ZIP code, and words of fixed lists', async () => {
    const rows = await analyst.rows('select * from intake_analytics.patients')
    const of = (id: string) => {
      const { patient, team_id, ...rest } = rows.find((row) => row.patient === pseudonym(id))!
      return rest
    }
    const year = new Date().getUTCFullYear()
    const band = (born: number) =>
      `${Math.floor((year - born) / 10) * 10}-${Math.floor((year - born) / 10) * 10 + 9}`
    expect(of('p')).toEqual({
      ...{ birth_year: 1980, age_band: band(1980), zip3: null, state: null, sex_at_birth: null },
      provider: expect.stringMatching(/^[0-9a-f]{64}$/),
      tags: ['Fall risk'],
    })
    expect(of('in a small area')).toMatchObject({
      birth_year: 1950,
      zip3: '000',
      state: 'VT',
      sex_at_birth: 'Female',
    })
    expect(of('in a large area')).toMatchObject({
      birth_year: 1950,
      zip3: '100',
      state: 'NY',
      sex_at_birth: 'Male',
    })
    expect(of('of ninety')).toMatchObject({
      birth_year: null,
      age_band: '90+',
      zip3: '902',
      sex_at_birth: 'Intersex',
    })
    expect(of('unborn')).toMatchObject({
      birth_year: null,
      age_band: null,
      zip3: null,
      state: null,
      sex_at_birth: null,
    })
  })

  it.each([
    ['one day short of ninety', 1, '80-89'],
    ['ninety today', 0, '90+'],
  ])('who are %s', async (_, days, band) => {
    await query(
      warehouse.url,
      `update intake.patients set date_birth = (current_date - interval '90 years')::date + $1::int where id = 'of ninety'`,
      [days],
    )
    const [row] = await analyst.rows('select * from intake_analytics.patients where patient = $1', [
      pseudonym('of ninety'),
    ])
    expect(row).toMatchObject({ age_band: band })
    expect(row!.birth_year === null).toBe(band === '90+')
  })

  it('are identified by HMAC-SHA256 under the configured key, the same in every view', async () => {
    for (const view of [
      'patients',
      'responses',
      'answers',
      'matrix_answers',
      'message_outcomes',
      'export_answers',
    ]) {
      const rows = await analyst.rows('select 1 from intake_analytics.patients where patient = $1', [
        pseudonym('p'),
      ])
      expect(rows.length, view).toBeGreaterThan(0)
    }
    // Setting the same key again changes nothing.
    const key = 'select * from intake_ops.analytics_key'
    const before = await query(warehouse.url, key)
    await run('migrate')
    expect(await query(warehouse.url, key)).toEqual(before)
  })
})

describe('answers', () => {
  const of = (question: string) =>
    analyst.rows(
      `select choice, value_number as number, value_boolean as boolean, value_year as year, value_text as text, is_shown
       from intake_analytics.answers where response_id = 'r1' and question_id = $1 order by position, value_position`,
      [question],
    )
  const nothing = { choice: null, number: null, boolean: null, year: null, text: null }

  it('are shown by type: offered choices, numbers, and checkboxes', async () => {
    const choices = (await of('payer')).map(({ choice }) => choice)
    // Free text is no choice, even with the id of one.
    expect(choices).toEqual(['HMO', null, 'PPO', null, null, null])
    expect((await of('devices')).map(({ choice }) => choice)).toEqual(['Cane', 'Walker, with wheels'])
    expect(await of('weight')).toEqual([
      { ...nothing, number: '81.5', is_shown: true },
      { ...nothing, is_shown: true },
    ])
    expect((await of('smoker')).map(({ boolean }) => boolean)).toEqual([true, null])
  })

  it('have the offered choices in a separate view, in order, including those that nobody selected', async () => {
    const offered = `select choice, position, question_position from intake_analytics.choices
      where question_id = 'payer' order by position`
    expect(await analyst.rows(offered)).toEqual(
      ['PPO', 'HMO', 'Other'].map((choice, at) => ({ choice, position: at + 1, question_position: 6 })),
    )
    const [taken] = await analyst.rows(
      `select count(*)::int as times from intake_analytics.answers where question_id = 'payer' and choice = 'Other'`,
    )
    expect(taken).toEqual({ times: 0 })
  })

  it('are hidden otherwise, while the type of the question stays visible', async () => {
    for (const question of ['name', 'story', 'born']) {
      for (const row of await of(question)) expect(row).toEqual({ ...nothing, is_shown: false })
    }
    const [row] = await analyst.rows(
      `select question_text, question_type, form from intake_analytics.answers where question_id = 'born' limit 1`,
    )
    expect(row).toEqual({ question_text: 'Date of birth', question_type: 'date', form: 'Intake' })
  })

  it('of exports are shown on the same terms', async () => {
    const rows = await analyst.rows(
      `select question_id, choice, value_number as number, value_boolean as boolean, value_text as text
       from intake_analytics.export_answers where row_number = $1 and is_shown order by position`,
      [1],
    )
    const flat = await analyst.rows(
      `select choice, value_boolean as boolean from intake_analytics.export_answers
       where row_number = 3 and is_shown order by position`,
    )
    expect(flat).toEqual([
      { choice: null, boolean: true },
      { choice: 'Cane; Other', boolean: null },
    ])
    expect(rows).toEqual([
      { question_id: 'weight', choice: null, number: '81.5', boolean: null, text: null },
      { question_id: 'smoker', choice: null, number: null, boolean: true, text: null },
      { question_id: 'payer', choice: 'HMO', number: null, boolean: null, text: null },
      { question_id: 'devices', choice: 'Cane, Other', number: null, boolean: null, text: null },
    ])
  })

  it('become visible by classify, for dates the year, and hidden again when the question changes', async () => {
    await run('classify', 'set', 'story', 'visible')
    await run('classify', 'set', 'born', 'visible', '--form', 'Intake')
    expect(await of('story')).toEqual([{ ...nothing, text: `${CANARY} said so`, is_shown: true }])
    expect(await of('born')).toEqual([1, 2].map(() => ({ ...nothing, year: 1980, is_shown: true })))
    await run('classify', 'set', 'weight', 'hidden')
    expect(await of('weight')).toEqual([1, 2].map(() => ({ ...nothing, is_shown: false })))

    await query(
      warehouse.url,
      `update intake.form_questions set text = text || '?' where question_id in ('story', 'payer')`,
    )
    await query(
      warehouse.url,
      `update intake.form_questions set question_type = 'long_text' where question_id = 'born'`,
    )
    for (const question of ['story', 'born']) {
      for (const row of await of(question)) expect(row).toEqual({ ...nothing, is_shown: false })
    }
    // Choices that were shown by the type of the question are texts of the form, and stay.
    expect((await of('payer')).map(({ choice }) => choice)).toEqual(['HMO', null, 'PPO', null, null, null])
    const list = JSON.parse(await run('classify', 'list', '--json')).questions as Record<string, unknown>[]
    const stateOf = (id: string) => list.find(({ question_id }) => question_id === id)
    expect(stateOf('payer')).toMatchObject({ decided_by: null, shows: 'structured', waits: true })
    expect(stateOf('story')).toMatchObject({ decided_by: null, shows: 'nothing', waits: true })
    expect(stateOf('weight')).toMatchObject({ waits: false })

    // A decision on the new wording shows earlier choices; free text answered another question.
    for (const question of ['story', 'payer']) await run('classify', 'set', question, 'visible')
    expect((await of('payer')).map(({ choice }) => choice)).toEqual(['HMO', null, 'PPO', null, null, null])
    await query(
      warehouse.url,
      `delete from intake_ops.classifications where question_id = 'story' and wording <> intake_ops.wording('long_text', 'What brings you here??')`,
    )
    expect(await of('story')).toEqual([{ ...nothing, is_shown: false }])
  })

  it('in free text stay hidden if a person hid their wording, whatever is decided on a later one', async () => {
    const [asked, reworded] = ['What brings you here?', 'What brings you here??']
    const decide = async (text: string, visibility: string) => {
      await query(warehouse.url, `update intake.form_questions set text = $1 where question_id = 'story'`, [
        text,
      ])
      await run('classify', 'set', 'story', visibility)
    }
    await decide(asked, 'hidden')
    await decide(reworded, 'visible')
    expect(await of('story')).toEqual([{ ...nothing, is_shown: false }])
    await decide(asked, 'visible')
    await decide(reworded, 'visible')
    expect(await of('story')).toEqual([{ ...nothing, text: `${CANARY} said so`, is_shown: true }])
  })

  it('stay when the form no longer has the question or the choice, and are hidden when it returns reworded', async () => {
    const taken = async () => (await of('devices')).map(({ choice }) => choice)
    const change = (text: string) => query(warehouse.url, text)
    expect(await taken()).toEqual(['Cane', 'Walker, with wheels'])
    await change(
      `update intake.question_choices set text = 'Stick' where question_id = 'devices' and text = 'Cane'`,
    )
    await change(`delete from intake.question_choices where question_id = 'devices' and text like 'Walker%'`)
    expect(await taken()).toEqual(['Cane', 'Walker, with wheels'])
    await change(`delete from intake.form_questions where question_id = 'devices'`)
    await change(`delete from intake.question_choices where question_id = 'devices'`)
    expect(await taken()).toEqual(['Cane', 'Walker, with wheels'])
    const answer = `select question_text, is_asked, is_shown from intake_analytics.questions where question_id = 'devices'`
    expect(await analyst.rows(answer)).toEqual([
      { question_text: 'Devices', is_asked: false, is_shown: true },
    ])
    await run('classify', 'set', 'devices', 'hidden')
    expect(await taken()).toEqual([null, null])
    await run('classify', 'set', 'devices', 'visible')
    expect(await taken()).toEqual(['Cane', 'Walker, with wheels'])
    const back = (text: string) =>
      change(`insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
        select team_id, 'f', 7, 'devices', 'multiple_choice', '${text}' from intake.teams`)
    await back('Which devices?')
    expect(await taken()).toEqual([null, null])
    await change(`delete from intake.form_questions where question_id = 'devices'`)
    expect(await taken()).toEqual([null, null])
    await back('Devices')
    expect(await taken()).toEqual(['Cane', 'Walker, with wheels'])
  })

  it('to a question that is reworded during the decision on it stay hidden', async () => {
    const [form, person] = [await connect(warehouse.url), await connect(warehouse.url)]
    try {
      await form.query('begin')
      await form.query(
        `update intake.form_questions set text = 'Name of your doctor' where question_id = 'name'`,
      )
      const decided = person.query(
        `insert into intake_ops.classifications (team_id, form_id, question_id, wording, is_visible, decided_by)
         values (1, 'f', 'name', intake_ops.wording('short_text', 'Name'), true, 'person')
         on conflict (team_id, form_id, question_id, wording) do update set is_visible = true, decided_by = 'person'`,
      )
      await until('the decision waits for the form', async () => {
        const [one] = await query<{ waits: boolean }>(
          warehouse.url,
          'select cardinality(pg_blocking_pids($1)) > 0 as waits',
          [(person as unknown as { processID: number }).processID],
        )
        return one!.waits
      })
      await form.query('commit')
      await decided
    } finally {
      await Promise.all([form.end(), person.end()])
    }
    for (const row of await of('name')) expect(row).toEqual({ ...nothing, is_shown: false })
  })

  it('to a new question are hidden, unless its type shows them', async () => {
    await query(
      warehouse.url,
      `insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
       select team_id, 'f', 90, 'gone', 'short_text', 'New' from intake.teams`,
    )
    expect(await of('gone')).toEqual([{ ...nothing, is_shown: false }])
  })
})

describe('a response that the logic of a packet left out', () => {
  it('answers no message, submits no packet, and is submitted in no figure', async () => {
    const put = (id: string, patient: string, skipped: boolean, submitted: string) =>
      query(
        warehouse.url,
        `insert into intake.responses (team_id, id, patient_id, form_id, packet_id, is_submitted, is_skipped, submitted_at,
           created_at, _version, _origin)
         values (1, $1, $2, $1, 'left out', true, $3, $4, '2026-03-01T00:00:00Z', now(), 'test')`,
        [id, patient, skipped, submitted],
      )
    await query(
      warehouse.url,
      `insert into intake.messages (team_id, id, patient_id, packet_id, sent_at, _version, _origin)
       values (1, 'for a packet', 'unborn', 'left out', '2026-03-01T00:00:00Z', now(), 'test')`,
    )
    const figures = async () => {
      const [message] = await analyst.rows(
        `select response_id, is_opened, is_answered from intake_analytics.message_outcomes where message_id = 'for a packet'`,
      )
      const [packet] = await analyst.rows(
        `select activity, is_submitted, responses::int, submitted::int, skipped::int,
           extract(day from submitted_at at time zone 'UTC')::int as submitted_on
         from intake_analytics.packet_progress where packet_id = 'left out'`,
      )
      return { message, packet }
    }
    await put('skipped', 'unborn', true, '2026-03-09T00:00:00Z')
    expect(await figures()).toEqual({
      message: { response_id: null, is_opened: false, is_answered: false },
      packet: {
        activity: 'setup',
        is_submitted: false,
        responses: 1,
        submitted: 0,
        skipped: 1,
        submitted_on: null,
      },
    })
    await put('filled in', 'unborn', false, '2026-03-02T00:00:00Z')
    expect(await figures()).toEqual({
      message: { response_id: 'filled in', is_opened: true, is_answered: true },
      packet: {
        activity: 'submitted',
        is_submitted: true,
        responses: 2,
        submitted: 1,
        skipped: 1,
        submitted_on: 2,
      },
    })
    await query(warehouse.url, `delete from intake.responses where packet_id = 'left out'`)
  })
})

describe('freshness', () => {
  const of = async (stream: string) => {
    const [row] = await analyst.rows<{ newest: string; lag: number; event: boolean }>(
      `select to_char(newest_record_at at time zone 'UTC', 'YYYY-MM-DD') as newest, extract(epoch from lag)::int as lag,
         last_event_at is not null as event
       from intake_analytics.freshness where stream = $1`,
      [stream],
    )
    return row!
  }

  it('goes by the own times of records, which are older than their first read, and by webhooks', async () => {
    // Deletions and times of other tests are left out.
    await query(warehouse.url, `delete from intake.patients where id not in ('p', 'in a small area')`)
    expect(await of('patients')).toMatchObject({ newest: '2026-01-01', event: false })
    await query(warehouse.url, `update intake_ops.runs set finished_at = finished_at - interval '1 day'`)
    expect((await of('patients')).lag).toBeGreaterThan(86_000)
    await query(
      warehouse.url,
      `update intake.patients set _origin = 'event:e', _loaded_at = now() - interval '1 hour',
         updated_at = '2026-01-05T00:00:00Z' where id = 'p'`,
    )
    const { newest, lag, event } = await of('patients')
    expect({ newest, event }).toEqual({ newest: '2026-01-05', event: true })
    expect(lag).toBeGreaterThanOrEqual(3_600)
    expect(lag).toBeLessThan(7_200)
    // A time that is years ahead is an error of the service.
    await query(
      warehouse.url,
      `update intake.patients set updated_at = '2099-01-01T00:00:00Z' where id = 'p'`,
    )
    expect((await of('patients')).newest).toBe('2026-01-01')
  })
})

it('a reported packet counts a response that its logic left out as skipped, and not as submitted', async () => {
  await query(
    warehouse.url,
    `with packet as (
       insert into intake.packet_responses (team_id, id, packet_id, is_submitted, _version, _origin)
       values (1, 'reported', 'reported', true, now(), 'test')
     ), member as (
       insert into intake.packet_response_members (team_id, packet_response_id, position, response_id)
       values (1, 'reported', 1, 'reported 1'), (1, 'reported', 2, 'reported 2')
     )
     insert into intake.responses (team_id, id, form_id, is_submitted, is_skipped, created_at, _version, _origin)
     select 1, 'reported ' || place, 'left', true, place = 2, '2026-03-01T00:00:00Z', now(), 'test'
     from generate_series(1, 2) place`,
  )
  const progress = await analyst.rows(
    `select responses::int, submitted::int, skipped::int from intake_analytics.packet_progress where packet_id = 'reported'`,
  )
  expect(progress).toEqual([{ responses: 2, submitted: 1, skipped: 1 }])
  await query(warehouse.url, `delete from intake.responses where form_id = 'left'`)
})

describe('message outcomes', () => {
  it('of a message for a form count no response to that form in a packet', async () => {
    await query(
      warehouse.url,
      `insert into intake.messages (team_id, id, patient_id, form_id, sent_at, _version, _origin)
       values (1, 'for a form', 'of ninety', 'f', '2026-02-01T00:00:00Z', now(), 'test')`,
    )
    await query(
      warehouse.url,
      `insert into intake.responses (team_id, id, patient_id, form_id, packet_id, is_submitted, submitted_at,
         created_at, _version, _origin)
       select 1, 'of ' || place, 'of ninety', 'f', case place when 1 then 'k' end, true, created_at + interval '1 day',
         created_at, now(), 'test'
       from unnest(array['2026-02-01T00:00:00Z', '2026-02-03T00:00:00Z']::timestamptz[])
         with ordinality as each (created_at, place)`,
    )
    const outcome = () =>
      analyst.rows(
        `select response_id, is_answered from intake_analytics.message_outcomes where message_id = 'for a form'`,
      )
    expect(await outcome()).toEqual([{ response_id: 'of 2', is_answered: true }])
    await query(warehouse.url, `delete from intake.responses where id = 'of 2'`)
    expect(await outcome()).toEqual([{ response_id: null, is_answered: false }])
  })

  it('count a response to the last message before it, and of its own patient', async () => {
    await query(
      warehouse.url,
      `insert into intake.messages (team_id, id, patient_id, form_id, sent_at, _version, _origin)
       select 1, 'reminder ' || place, 'reminded', 'g', sent_at, now(), 'test'
       from unnest(array['2026-02-01T00:00:00Z', '2026-02-05T00:00:00Z', '2026-02-09T00:00:00Z']::timestamptz[])
         with ordinality as each (sent_at, place)`,
    )
    await query(
      warehouse.url,
      `insert into intake.responses (team_id, id, patient_id, form_id, is_submitted, created_at, _version, _origin)
       values (1, 'of another', 'another', 'g', true, '2026-02-02T00:00:00Z', now(), 'test'),
         (1, 'of the reminded', 'reminded', 'g', true, '2026-02-06T00:00:00Z', now(), 'test')`,
    )
    const outcomes = await analyst.rows(
      `select message_id, response_id from intake_analytics.message_outcomes where message_id like 'reminder %' order by 1`,
    )
    expect(outcomes).toEqual([
      { message_id: 'reminder 1', response_id: null },
      { message_id: 'reminder 2', response_id: 'of the reminded' },
      { message_id: 'reminder 3', response_id: null },
    ])
    await query(warehouse.url, `delete from intake.responses where form_id = 'g'`)
  })

  it.each(['form_id', 'packet_id', 'document_id'])(
    'count a response although a message for another %s was sent before it',
    async (target) => {
      await query(
        warehouse.url,
        `insert into intake.messages (team_id, id, patient_id, ${target}, sent_at, _version, _origin)
         select 1, 'for ' || asked, 'asked for two', asked, sent_at, now(), 'test'
         from unnest(array['one', 'two'], array['2026-02-01T00:00:00Z', '2026-02-02T00:00:00Z']::timestamptz[])
           as each (asked, sent_at)`,
      )
      await query(
        warehouse.url,
        `insert into intake.responses (team_id, id, patient_id, ${target}, is_submitted, created_at, _version, _origin)
         values (1, 'to one', 'asked for two', 'one', true, '2026-02-03T00:00:00Z', now(), 'test')`,
      )
      const outcomes = await analyst.rows(
        `select message_id, response_id from intake_analytics.message_outcomes where message_id in ('for one', 'for two')
         order by 1`,
      )
      await query(
        warehouse.url,
        `delete from intake.responses where id = 'to one'; delete from intake.messages where patient_id = 'asked for two'`,
      )
      expect(outcomes).toEqual([
        { message_id: 'for one', response_id: 'to one' },
        { message_id: 'for two', response_id: null },
      ])
    },
  )
})

function pseudonym(id: string): string {
  return createHmac('sha256', KEY).update(`1:${id}`).digest('hex')
}
