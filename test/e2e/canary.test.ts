/**
 * Law 8 end to end: a canary is planted wherever the service and the configuration contain values; then every failure
 * occurs at the most verbose log level. The canary must be in the tables that contain health data, and nowhere else.
 */
import type http from 'node:http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { json, type Received } from '../api/support/service.ts'
import { type Ended, runCli } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { bookkeeping, CANARY, SEEN } from './support/canary.ts'
import { withoutPauses } from './support/impatient.ts'
import {
  type LittleRecord,
  type LittleService,
  littlePatients,
  startLittleService,
} from './support/little-service.ts'
import { openScene, openWarehouse, query } from './support/scene.ts'

withoutPauses()

let service: LittleService
let warehouse: TestDatabase

beforeAll(async () => {
  warehouse = await openWarehouse()
  service = await startLittleService()
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await warehouse.drop()
})

async function backfill(...args: string[]): Promise<Ended> {
  const secrets = { INTAKE_API_KEY: `${CANARY}-key`, INTAKE_API_SECRET: `${CANARY}-secret` }
  const env = { ...service.env, ...secrets, DATABASE_URL: warehouse.url, LOG_LEVEL: 'trace' }
  return await runCommand(['backfill', ...args], env)
}

async function expectUnseen(run: Ended): Promise<void> {
  expect(run.output.length).toBeGreaterThan(100)
  expect(run.output).not.toMatch(SEEN)
  expect(await bookkeeping(warehouse.url)).not.toMatch(SEEN)
}

const NAMED: LittleRecord = {
  id: 'whole',
  first_name: CANARY,
  last_name: CANARY,
  email: `${CANARY}@example.com`,
  phone_number: CANARY,
  address: CANARY,
  external_id: CANARY,
  provider: { id: 'x', name: CANARY },
  patient_tags: [{ name: CANARY, color: CANARY }],
  custom_fields: { plan: CANARY },
  emergency_contact: { first_name: CANARY },
}

describe('a planted canary', () => {
  it('is in the warehouse, so that the other tests can fail', async () => {
    service.records.patients.push(NAMED)
    service.records.forms.push({
      id: 'f',
      name: CANARY,
      questions: [{ id: 'q', text: CANARY, choices: [CANARY] }],
    })
    service.records.documents.push({ id: 'd', name: CANARY, input_fields: [{ id: 'i', name: CANARY }] })
    const run = await backfill()
    expect(run.code).toBe(0)
    await expectUnseen(run)
    const [stored] = await query(warehouse.url, 'select last_name, email from intake.patients')
    expect(stored).toEqual({ last_name: CANARY, email: `${CANARY}@example.com` })
  })

  it('does not leak from a record that cannot be read, keyed or stored', async () => {
    service.records.patients.push(
      {
        ...NAMED,
        id: 'typed',
        date_birth: CANARY,
        updated_at: CANARY,
        patient_tags: CANARY,
        custom_fields: CANARY,
      },
      {
        ...NAMED,
        id: 'nested',
        first_name: { given: CANARY },
        emergency_contact: [CANARY],
        unknown: { deep: CANARY },
      },
      { ...NAMED, id: 'odd', last_name: `${CANARY}\u0000\ud800`, custom_fields: { plan: `${CANARY}\u0000` } },
      { ...NAMED, id: 'refused', last_name: `${CANARY} is refused` },
      { ...NAMED, id: null } as unknown as LittleRecord,
      { ...NAMED, id: { name: CANARY } } as unknown as LittleRecord,
      CANARY as unknown as LittleRecord,
      [CANARY] as unknown as LittleRecord,
    )
    // The detail of a constraint violation contains the whole row.
    await query(warehouse.url, "alter table intake.patients add check (last_name not like '%refused')")
    const run = await backfill()
    expect(run.code).toBe(4)
    await expectUnseen(run)
    const deadLetters = await query<{ reason: string }>(
      warehouse.url,
      'select reason from intake_ops.dead_letters',
    )
    expect(deadLetters.map(({ reason }) => reason)).toContain(
      'the warehouse refused the record (SQLSTATE 23514)',
    )
    expect(deadLetters).toHaveLength(5)
    const problems = await query(warehouse.url, "select from intake_ops.problems where stream = 'patients'")
    expect(problems.length).toBeGreaterThanOrEqual(5)
    service.records.patients.splice(1)
    expect((await backfill()).code).toBe(0)
  })

  it('is not repeated from rejections: their texts, headers, reasons, keys and URLs', async () => {
    const answers: ((to: http.ServerResponse) => void)[] = [
      (to) => json(to, { detail: `${CANARY} is no e-mail`, [CANARY]: [CANARY] }, 400),
      (to) => json(to, { detail: CANARY }, 404, { 'x-caller': CANARY }),
      (to) => to.writeHead(302, CANARY, { location: `/people/${CANARY}?q=${CANARY}` }).end(),
      (to) => json(to, { [CANARY]: { [CANARY]: CANARY } }),
      (to) => to.writeHead(418, CANARY).end(CANARY),
      (to) => json(to, { detail: CANARY }, 403, { 'x-caller': CANARY }),
    ]
    const streams = ['patients', 'forms', 'packets', 'documents']
    for (const offset of [0, 2]) {
      service.interfere = ({ url }, response) => {
        answers[offset + streams.findIndex((name) => url.startsWith(`/v2/${name}`))]!(response)
        return true
      }
      const run = await backfill('--streams', streams.join(','))
      expect(run.code).toBe(1)
      await expectUnseen(run)
    }
    service.interfere = () => false
  })

  it('is not repeated from answers that are retried, nor from the query of their request', async () => {
    service.records.patients.push(...littlePatients(14))
    const answers: ((to: http.ServerResponse) => void)[] = [
      (to) => to.writeHead(502, { 'content-type': 'text/html' }).end(`<h1>${CANARY}</h1>`),
      (to) => to.writeHead(200).end(`{"results": [{"last_name": "${CANARY}" oops`),
      cutOff,
      (to) => json(to, { detail: `${CANARY}, wait 1 second` }, 429, { 'retry-after': '1' }),
    ]
    service.interfere = ({ url }: Received, response) => {
      if (url === '/v2/patients') {
        const next = `/v2/patients?email=${CANARY}&page=2`
        json(response, { count: 15, next, previous: null, results: service.records.patients.slice(0, 10) })
        return true
      }
      const answer = url.includes('page=2') ? answers.shift() : undefined
      answer?.(response)
      return answer !== undefined
    }
    const run = await backfill('--streams', 'patients')
    service.interfere = () => false
    service.records.patients.splice(1)
    expect(answers).toEqual([])
    expect(run.code).toBe(0)
    expect(run.stderr).toContain('"attempt":5')
    await expectUnseen(run)
  })

  it('does not leak while the service fails in every way at once, nor from status afterwards', async () => {
    await using scene = await openScene({
      apiKey: `${CANARY}-key`,
      apiSecret: `${CANARY}-secret`,
      pageSize: 5,
    })
    const { control } = scene.emulator
    const { id: _, ...fields } = NAMED
    for (let at = 0; at < 20; at++) {
      control.createPatient({
        ...(fields as object),
        provider: CANARY,
        custom_fields: { plan: CANARY, at: String(at) },
      })
    }
    control.addForm({ name: CANARY, text: CANARY })
    control.setFaults(
      'http-500=0.05,reset=0.05,cut-json=0.05,corrupt-json=0.05,invalid-utf8=0.2,shift-rows=0.1',
    )
    const env = { ...scene.env, LOG_LEVEL: 'trace' }
    // The first in a process of its own, to check output of Node itself.
    const runs = [await runCli(['backfill'], env), await runCommand(['backfill', '--full', '--json'], env)]
    runs.push(await runCommand(['status'], env), await runCommand(['status', '--json'], env))
    for (const run of runs) expect(run.output).not.toMatch(SEEN)
    expect(runs[0]!.stderr).toContain('"level":20')
    expect(await bookkeeping(scene.url)).not.toMatch(SEEN)
    // The runs loaded what they could, and the next one without faults loads the rest: nothing was lost on the way.
    const stored = 'select from intake.patients where last_name = $1'
    expect((await query(scene.url, stored, [CANARY])).length).toBeGreaterThan(0)
    control.setFaults('')
    const healed = await runCommand(['backfill', '--full'], env)
    expect(healed.output).not.toMatch(SEEN)
    expect(healed.code).toBe(0)
    expect(await query(scene.url, stored, [CANARY])).toHaveLength(20)
  })
})

function cutOff(response: http.ServerResponse): void {
  response.writeHead(200, { 'content-length': 9000 })
  response.write(`{"results": [{"last_name": "${CANARY}`)
  setTimeout(() => response.destroy(), 10)
}
