/**
 * Law 8 for every stream: the canary that is planted in each text of each record is in the tables that contain health
 * data, and in nothing that is printed, logged, kept as bookkeeping, or visible in statements and processes.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { json } from '../api/support/service.ts'
import { type Ended, runCli } from '../support/cli.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import {
  bookkeeping,
  CANARY,
  disfigured,
  FILES,
  PLANTED,
  planted,
  rowsWithCanary,
  SEEN,
  watched,
} from './support/canary.ts'
import { withoutPauses } from './support/impatient.ts'
import { type LittleRecord, type LittleService, startLittleService } from './support/little-service.ts'
import { openWarehouse, query } from './support/scene.ts'

withoutPauses()

let service: LittleService
let warehouse: TestDatabase
const files = new Map<string, string>()

beforeAll(async () => {
  warehouse = await openWarehouse()
  service = await startLittleService()
  service.interfere = ({ method, body }, response) => {
    if (method !== 'POST') return false
    const file = files.get(JSON.parse(String(body)).id)
    if (file === undefined) json(response, { detail: CANARY }, 404)
    else response.writeHead(200, { 'content-type': 'text/plain' }).end(file)
    return true
  }
})

afterAll(async () => {
  await service[Symbol.asyncDispose]()
  await warehouse.drop()
})

const environment = () => ({ ...service.env, DATABASE_URL: warehouse.url, LOG_LEVEL: 'trace' })

const backfill = (...args: string[]) => runCommand(['backfill', ...args], environment())

/** A run whose output, statements and bookkeeping are searched; `apart` runs it in a process of its own. */
async function unseen(run: () => Promise<Ended>): Promise<Ended> {
  const { result, seen } = await watched(warehouse.url, run)
  expect(result.output.length).toBeGreaterThan(100)
  expect(seen).toContain('intake-sync')
  const output = `${result.output}\n${seen}\n${await bookkeeping(warehouse.url)}`
  expect(output.split('\n').filter((line) => SEEN.test(line))).toEqual([])
  return result
}

function plant(): void {
  for (const { list, record } of PLANTED) {
    service.records[list as keyof typeof planted].push(record('whole'))
  }
  files.set('whole', FILES[0]!)
}

describe('a canary in every stream', () => {
  it('appears in no dry run on an empty warehouse', async () => {
    plant()
    const run = await unseen(() => backfill('--dry-run'))
    expect(run.code).toBe(0)
    expect(await rowsWithCanary(warehouse.url, 'intake')).toMatchObject({ patients: 0, export_cells: 0 })
  })

  it("is in every table that contains a person's text, and nowhere else", async () => {
    const run = await unseen(() => runCli(['backfill'], environment()))
    expect(run.code).toBe(0)
    const found = await rowsWithCanary(warehouse.url, 'intake')
    const without = Object.keys(found).filter((table) => found[table] === 0)
    // Except tables with only ids and names that staff chose, and tables that only webhooks fill.
    expect(without).toEqual(['packet_forms', 'packet_response_members', 'packet_responses', 'teams'])
    expect(await rowsWithCanary(warehouse.url, 'intake_raw')).toMatchObject({ records: PLANTED.length })
  })

  it('does not leak from a record that cannot be read, keyed or stored, in any stream', async () => {
    for (const { list: name, record, text } of PLANTED) {
      const list = service.records[name as keyof typeof planted]
      const odd = ['odd', null, { name: CANARY }, 1e300].map((id) => ({ ...disfigured(record('x')), id }))
      list.push(...(odd as unknown as LittleRecord[]), CANARY as unknown as LittleRecord)
      list.push({
        ...record('refused'),
        status: 'refused',
        name: 'refused',
        form_name: 'refused',
        target_url: 'refused',
        ...(text === null ? {} : { [text]: 'refused' }),
      })
    }
    for (const [at, file] of FILES.entries()) {
      service.records.exports.push(planted.exports(`file ${at}`))
      files.set(`file ${at}`, file)
    }
    files.set('odd', FILES[1]!)
    files.set('refused', FILES[0]!)
    // The detail of a constraint violation contains the whole row.
    const refusing = [
      ['forms', 'name'],
      ['packets', 'name'],
      ['documents', 'name'],
      ['responses', 'form_name'],
      ['messages', 'status'],
      ['webhook_configs', 'target_url'],
      ['webhook_deliveries', 'status'],
      ...PLANTED.flatMap(({ table, text }) => (text === null ? [] : [[table, text]])),
    ]
    for (const [table, column] of refusing) {
      await query(warehouse.url, `alter table intake.${table} add check (${column} <> 'refused')`)
    }
    expect((await unseen(() => backfill('--dry-run', '--json'))).code).toBe(4)
    const run = await unseen(() => backfill())
    expect(run.code).toBe(4)
    const deadLetters = await query<{ stream: string; reason: string }>(
      warehouse.url,
      'select stream, reason from intake_ops.dead_letters',
    )
    for (const { stream: name } of PLANTED) {
      expect(
        deadLetters.filter((deadLetter) => deadLetter.stream === name).length,
        name,
      ).toBeGreaterThanOrEqual(3)
      const problems = await query(warehouse.url, 'select from intake_ops.problems where stream = $1', [name])
      expect(problems.length, name).toBeGreaterThanOrEqual(1)
    }
    expect(deadLetters.filter(({ reason }) => reason.includes('23514')).length).toBe(refusing.length)
    expect((await unseen(() => runCommand(['status', '--json'], environment()))).code).toBe(0)
  })

  it('is not repeated from a rejection, for any request', async () => {
    const answer = service.interfere
    for (const status of [400, 403, 418]) {
      service.interfere = (_, response) => {
        json(response, { detail: CANARY, [CANARY]: [CANARY] }, status, { 'x-caller': CANARY })
        return true
      }
      for (const args of [[], ['--dry-run'], ['--full', '--json']]) {
        expect((await unseen(() => backfill(...args))).code).toBe(1)
      }
    }
    service.interfere = (request, response) => {
      if (request.method !== 'POST') return answer(request, response)
      json(response, { detail: CANARY }, 400)
      return true
    }
    expect((await unseen(() => backfill('--streams', 'exports', '--full'))).code).not.toBe(0)
    service.interfere = answer
  })
})
