/**
 * A patient is erased while everything runs: `serve` receives, drains and fetches, the clinic changes this patient, and a
 * full backfill reads them. Afterwards a dump of the database, including statistics and large values, contains nothing
 * of the patient, and later data of the service brings nothing back.
 */

import { Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { to } from 'pg-copy-streams'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { wallClock } from '../../src/emulator/clock.ts'
import { startActivity } from '../../src/emulator/world/clinic-changes.ts'
import { withoutPauses } from '../e2e/support/impatient.ts'
import { connect, openScene, query, type Scene } from '../e2e/support/scene.ts'
import {
  ANYWHERE,
  createWebhook,
  type ServingProcess,
  settled,
  startServing,
  until,
} from '../e2e/support/serving.ts'
import { runCommand } from '../support/run-command.ts'

withoutPauses()

/** In everything of the patient, and in nothing else. */
const MARK = 'Zilpzalp8264'
/** Too large for a page of Postgres: stored outside of its row, compressed. */
const LARGE = `${MARK} `.repeat(4_000)

let scene: Scene
let serving: ServingProcess
let patient: string
let responses: readonly string[]

beforeAll(async () => {
  scene = await openScene({ patients: 30, forms: 4, packets: 2, documents: 2, responses: 60, pageSize: 10 })
  const { control } = scene.emulator
  const world = control.world()
  const counts = new Map<string, number>()
  for (let at = 0; at < world.responses.end; at++) {
    const { patient: of, is_skipped } = world.responses.at(at)!
    if (!is_skipped) counts.set(of, (counts.get(of) ?? 0) + 1)
  }
  patient = [...counts].sort(([, a], [, b]) => b - a)[0]![0]
  mark()
  responses = Array.from({ length: world.responses.end }, (_, at) => world.responses.at(at)!)
    .filter((one) => one.patient === patient)
    .map(({ id }) => id)
  for (const id of responses) {
    world.responses.update(id, (one) => ({
      ...one,
      answers: one.answers.map((answer) => ({
        ...answer,
        answer_text: `${MARK} ${answer.answer_text ?? ''}`,
      })),
      files: one.files.map((file) => ({ ...file, name: `${MARK}.png` })),
      e_signatures: one.e_signatures.map((signature) => ({ ...signature, signer_name: MARK })),
    }))
  }
  expect((await scene.backfill()).code).toBe(0)
  serving = await startServing(scene.env)
  await createWebhook({ ...scene.env, ...ANYWHERE }, serving.document.webhooks!)
})

afterAll(async () => {
  await serving?.stop('SIGKILL')
  await scene?.[Symbol.asyncDispose]()
})

let marks = 0

/** The patient changes, and each state contains the mark. */
function mark(): void {
  marks += 1
  scene.emulator.control.updatePatient(patient, {
    ...{ first_name: MARK, last_name: `${MARK} ${marks}`, email: `${MARK}@example.com`, city: MARK },
    custom_fields: { plan: LARGE, times: `${MARK} ${marks}` },
    date_birth: `${MARK} day`,
  })
}

/** Every table of every schema as it would be dumped, with the statistics of their values. */
async function dump(): Promise<readonly string[]> {
  const client = await connect(scene.url)
  const tables = await client.query<{ name: string }>(
    `select format('%I.%I', nspname, relname) as name
     from pg_class join pg_namespace schema on schema.oid = relnamespace
     where relkind in ('r', 'm') and nspname !~ '^pg_(toast|temp)' and nspname <> 'information_schema'
       and relname <> 'pg_statistic' order by 1`,
  )
  const lines: string[] = []
  try {
    for (const { name } of tables.rows) {
      const pieces: Buffer[] = []
      const sink = new Writable({
        write: (piece: Buffer, _, done) => {
          pieces.push(piece)
          done()
        },
      })
      await pipeline(client.query(to(`copy (select * from ${name}) to stdout`)), sink)
      lines.push(
        ...Buffer.concat(pieces)
          .toString('latin1')
          .split('\n')
          .map((line) => `${name}\t${line}`),
      )
    }
    const statistics = await client.query<{ line: string }>(
      "select format('%s.%s.%s %s', schemaname, tablename, attname, s::text) as line from pg_stats s",
    )
    lines.push(...statistics.rows.map(({ line }) => `pg_stats:${line}`))
  } finally {
    await client.end()
  }
  return lines
}

/** Where one of the texts is, as text or as bytes that a dump shows in hexadecimal digits. */
async function placesOf(texts: readonly string[]): Promise<readonly string[]> {
  const wanted = texts.flatMap((text) => [text, Buffer.from(text).toString('hex')])
  const found = (await dump()).filter((line) => wanted.some((text) => line.includes(text)))
  return [...new Set(found.map((line) => line.slice(0, line.search(/[\t ]/))))].sort()
}

it('during a serve and a backfill, the patient is erased from every table, and stays erased', async () => {
  const { control } = scene.emulator
  const world = control.world()
  const still = new AbortController()
  startActivity(world, 20, 'erase', wallClock, still.signal)
  for (let at = 0; at < 5; at++) mark()
  control.staff().send({ patient, form: world.forms.at(0)!.id })
  await until(
    'events of the patient came',
    async () => {
      const rows = await query(
        scene.url,
        `select from intake_raw.inbox where status = 'done' and position($1::bytea in body) > 0`,
        [Buffer.from(MARK)],
      )
      return rows.length >= 3
    },
    60_000,
  )
  // As after some days of work: statistics of values, and dead letters that were shown.
  await query(scene.url, 'analyze')
  const all = [patient, MARK, ...responses]
  const before = await placesOf(all)
  expect(before).toEqual(
    expect.arrayContaining([
      'intake.export_rows',
      'intake.patients',
      'intake.response_answers',
      'intake_raw.export_chunks',
      'intake_raw.record_history',
      'intake_raw.records',
      'pg_stats:intake.patients.city',
    ]),
  )
  expect(before.some((name) => name.startsWith('intake_raw.inbox_'))).toBe(true)

  const backfill = scene.backfill('--full')
  const busy = setInterval(mark, 150)
  const erased = await runCommand(['erase', 'patient', patient, '--yes', '--json'], scene.env)
  // An event that arrived since waits for the drain, which removes what it contains.
  const { left }: { left: readonly { table: string }[] } = JSON.parse(erased.stdout)
  expect(left.filter(({ table }) => table !== 'intake_raw.inbox')).toEqual([])
  expect(erased.code).toBe(left.length === 0 ? 0 : 4)
  expect(erased.output).not.toContain(MARK)
  await backfill
  for (let at = 0; at < 5; at++) mark()
  clearInterval(busy)
  still.abort()
  await settled(scene)
  // Responses and messages created in the meantime are recognized by the patient that they name.
  const ids = Array.from({ length: world.responses.end }, (_, at) => world.responses.at(at))
    .filter((one) => one?.patient === patient)
    .map((one) => one!.id)
  expect(await placesOf([patient, MARK, ...ids])).toEqual([])

  // Messages of meanwhile are known from now on; once the service has no such patient, they name nobody.
  expect((await scene.backfill('--full')).code).toBe(0)
  // A late event with an earlier state, the nightly run, and a replay bring nothing back.
  control.deletePatient(patient)
  await settled(scene)
  const { stdout } = await scene.backfill('--full', '--json')
  expect(JSON.parse(stdout).streams.responses.erased).toBeGreaterThan(0)
  for (const words of [['replay'], ['replay', '--inbox', '--since', '2020-01-01']])
    expect((await runCommand(words, scene.env)).code).toBe(0)
  expect(await placesOf([patient, MARK, ...ids])).toEqual([])
  expect((await serving.stop()).code).toBe(0)
})
