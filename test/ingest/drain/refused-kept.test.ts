/** The stored content of a rejected record contains no more than that of a loaded one (law 8). */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../../../src/core/clock.ts'
import { openRefetcher } from '../../../src/extract/conflicts/refetcher.ts'
import { type LittleService, startLittleService } from '../../e2e/support/little-service.ts'
import { tablesHolding } from '../../operate/everywhere.ts'
import { runCommand } from '../../support/run-command.ts'
import { noonPlus, openScene, patientEvent, type Scene, silent, unwatched } from './scene.ts'

const KEY = 'Kanarienvogel7351'
const BYTES = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ'

/** Postgres rejects a record whose form has this name. */
const REFUSED = 'refused'

function responseOf(id: string | null, form_name = REFUSED) {
  return {
    ...{ id, form_name, form: { id: 'f', name: form_name }, patient: { id: 'p' }, is_submitted: true },
    ...{ submitted_at: noonPlus(1), created_at: noonPlus(1), updated_at: noonPlus(1) },
    answers: [
      {
        question: { id: 'q', text: 'Where?' },
        answer_text: `https://files.example.com/given?X-Amz-Signature=${KEY}`,
        uploads: [{ id: 'n', name: 'n.png', url: `https://files.example.com/nested?signature=${KEY}` }],
      },
      { question: { id: 'p', text: 'Photo' }, answer_text: `data:image/png;base64,${BYTES}${KEY}` },
    ],
    files: [{ id: 'x', name: 'x.png', url: `https://files.example.com/file?token=${KEY}` }],
    e_signatures: [
      { id: 's', signer_name: 'Ann', image: `data:image/png;base64,${BYTES}${KEY}` },
      { id: 't', signer_name: 'Ann', image: `${BYTES}${KEY}` },
    ],
    photo: { inline: `data:image/jpeg;base64,${KEY}` },
  }
}

let scene: Scene
let service: LittleService

const refuse = (does: boolean) =>
  scene.rows(
    does
      ? `alter table intake.responses add constraint picky check (form_name <> '${REFUSED}') not valid`
      : 'alter table intake.responses drop constraint picky',
  )
const event = (id: string | null) => ({ ...patientEvent('x', 1), source: 'response', data: responseOf(id) })
const run = (...words: string[]) =>
  runCommand(words, { ...service.env, DATABASE_URL: scene.url, LOG_LEVEL: 'error' })

async function refetch() {
  const access = { baseUrl: service.url, apiKey: 'k', apiSecret: 's', apiVersion: 'v2.1', concurrency: 4 }
  await using refetcher = openRefetcher({
    ...{ url: scene.url, teams: [{ name: 'default', teamId: scene.teamId, ...access }], clock: systemClock },
    ...{ random: Math.random, logger: silent, watch: unwatched, pollMs: 10 },
  })
  await refetcher.idle()
}

const deadLetters = () =>
  scene.rows<{ record_id: string | null; origin: string; reason: string; body: string }>(
    `select record_id, origin, reason, convert_from(body, 'UTF8') as body
     from intake_ops.dead_letters join intake_raw.set_aside on dead_letter_id = id order by id`,
  )

/** The inbox keeps the exact bytes for INTAKE_INBOX_DAYS. */
const holdSecrets = async () => {
  const tables = Object.keys(await tablesHolding(scene.url, [KEY, BYTES, 'base64,', 'Signature=', 'token=']))
  return tables.filter((name) => !name.startsWith('intake_raw.inbox'))
}

beforeAll(async () => {
  scene = await openScene()
  service = await startLittleService()
  await refuse(true)
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await scene[Symbol.asyncDispose]()
})

test('rejected events, pages and answers leave no signature, query string or image in any table', async () => {
  await scene.store([event('of an event'), event(null)])
  await scene.drain({ backoffMs: [] })
  service.records.responses.push(responseOf('of a page') as never, responseOf(null) as never)
  await run('backfill', '--streams', 'responses')
  service.records.responses.push(responseOf('of an answer') as never)
  await scene.rows(
    `insert into intake_ops.refetches (team_id, stream, id, reason, origin) values ($1, 'responses', 'of an answer', 'contested', 'event:x')`,
    [scene.teamId],
  )
  await refetch()
  const all = await deadLetters()
  expect(all.map(({ record_id, origin, reason }) => [record_id, origin.split(/[: ]/)[0], reason])).toEqual([
    ['of an event', 'event', 'the warehouse refused the event (SQLSTATE 23514)'],
    [null, 'event', 'an event whose record has no id'],
    [null, 'run', 'has no id'],
    ['of a page', 'run', 'the warehouse refused the record (SQLSTATE 23514)'],
    ['of an answer', 'event', 'the warehouse refused the record (SQLSTATE 23514)'],
  ])
  for (const { body } of all) expect(body).toContain('https://files.example.com/file')
  expect(await holdSecrets()).toEqual([])
})

test('a second rejected attempt leaves none either', async () => {
  await run('dead-letters', 'retry', '--all')
  await scene.drain({ backoffMs: [] })
  await refetch()
  await run('backfill', '--full', '--streams', 'responses')
  await run('replay', '--inbox', '--since', '2026-01-01')
  expect((await deadLetters()).length).toBeGreaterThan(5)
  expect(await holdSecrets()).toEqual([])
})

test('the stored content is the same as after they are loaded', async () => {
  const kept = new Map((await deadLetters()).map(({ record_id, body }) => [record_id, JSON.parse(body)]))
  await refuse(false)
  await scene.rows(`update intake_raw.inbox set status = 'pending', due_at = null, attempts = 0`)
  await scene.drain()
  service.records.responses.push(responseOf('of an event') as never)
  await run('backfill', '--full', '--streams', 'responses')
  const loaded = await scene.rows<{ id: string; payload: object }>(
    'select id, payload from intake_raw.records where not deleted order by id',
  )
  expect(loaded.map(({ id }) => id)).toEqual(['of a page', 'of an answer', 'of an event'].sort())
  for (const { id, payload } of loaded) {
    const own = kept.get(id)
    expect('data' in own ? own.data : own).toEqual(payload)
  }
  expect(await holdSecrets()).toEqual([])
})
