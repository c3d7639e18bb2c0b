/** Exports and responses are compared with each other, by the command itself. */
import { randomUUID } from 'node:crypto'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Response } from '../../../src/emulator/world/records.ts'
import { all } from '../../analytics/grouped.ts'
import { openScene, type Scene } from '../../e2e/support/scene.ts'
import { configOf } from '../../e2e/support/teams.ts'
import type { Ended, Variables } from '../../support/cli.ts'
import { runCommand } from '../../support/run-command.ts'

interface Deep {
  readonly rows: number
  readonly cells: number
  readonly columns_not_compared: number
  readonly differences: readonly {
    readonly export_id: string
    readonly response_id: string | null
    readonly row_number: number | null
    readonly position: number | null
  }[]
}

let scene: Scene

beforeAll(async () => {
  scene = await openScene({ patients: 30, responses: 90, forms: 7 })
  // What one person signed, a second one did too, whose name comes first in the alphabet.
  const { responses } = scene.emulator.control.world()
  for (const { id, e_signatures } of all<Response>(responses)) {
    const both = e_signatures.flatMap((signed) => [
      { ...signed, signer_name: 'Zoe' },
      { ...signed, id: randomUUID(), signer_name: 'Abe' },
    ])
    if (both.length > 0) responses.update(id, (old) => ({ ...old, e_signatures: both }))
  }
  const loaded = await scene.backfill()
  expect(loaded.code, loaded.output).toBe(0)
})

afterAll(async () => {
  await scene[Symbol.asyncDispose]()
})

function verify(env: Variables = {}): Promise<Ended> {
  const words = ['verify', '--deep', '--json', '--streams', 'responses,exports']
  return runCommand(words, { ...scene.env, LOG_LEVEL: 'error', ...env })
}

const deepOf = ({ stdout }: Ended) => (JSON.parse(stdout) as { deep: Deep }).deep

it('a service with equal content in both channels agrees, answer by answer', async () => {
  const ended = await verify()
  expect(deepOf(ended)?.differences).toEqual([])
  expect(ended.code, ended.output).toBe(0)
  const { rows, cells, columns_not_compared } = deepOf(ended)
  const [stored] = await scene.query<{ rows: number }>('select count(*)::int as rows from intake.export_rows')
  expect(rows).toBe(stored!.rows)
  expect(cells).toBeGreaterThan(rows * 3)
  // Two questions of one form with the same text cannot be distinguished by their titles.
  const [unmatched] = await scene.query<{ columns: number }>(
    'select count(*)::int as columns from intake.export_columns where question_id is null',
  )
  expect(columns_not_compared).toBe(unmatched!.columns)
  const signed = await scene.query(`select from intake.export_cells where value = 'Zoe; Abe'`)
  expect(signed.length).toBeGreaterThan(0)
})

it('it also agrees for exports of the older form', async () => {
  const ended = await verify({ INTAKE_API_VERSION: '' })
  expect(deepOf(ended)?.differences).toEqual([])
})

const proxies: http.Server[] = []
afterAll(() => {
  for (const each of proxies) each.close()
})

/** Returns the origin of a server whose answers are those of the service, changed; those changed to null are not found. */
async function startProxy(
  change: (text: string, request: http.IncomingMessage) => string | null,
): Promise<string> {
  const target = new URL(scene.env.INTAKE_BASE_URL!)
  const proxy = http.createServer((request, response) => {
    const pieces: Buffer[] = []
    request.on('data', (piece: Buffer) => pieces.push(piece))
    request.on('end', async () => {
      const answer = await fetch(new URL(request.url!, target), {
        method: request.method!,
        headers: Object.fromEntries(
          Object.entries(request.headers).filter(([name]) => /^(x-|content-type)/.test(name)),
        ) as Record<string, string>,
        ...(pieces.length === 0 ? {} : { body: Buffer.concat(pieces) }),
      })
      const text = change((await answer.text()).replaceAll(target.origin, origin), request)
      const type = answer.headers.get('content-type') ?? 'application/json'
      response.writeHead(text === null ? 404 : answer.status, { 'content-type': type }).end(text ?? '{}')
    })
  })
  proxies.push(proxy)
  await new Promise<void>((done) => proxy.listen(0, '127.0.0.1', done))
  const origin = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
  return origin
}

/** The first cell, or a later one, with a text that no other cell has, and the response that has it too. */
async function someCell(later = 0) {
  const [cell] = await scene.query<{
    export_id: string
    row_number: number
    position: number
    value: string
    response_id: string
  }>(
    `select c.export_id, c.row_number, c.position, c.value, r.id as response_id
     from intake.export_cells c
     join intake.export_columns h on h.export_id = c.export_id and h.position = c.position
     join intake.exports e on e.id = c.export_id
     join intake.form_questions q on q.form_id = e.form_id and q.question_id = h.question_id
     join intake.export_rows w on w.export_id = c.export_id and w.row_number = c.row_number
     join intake.responses r on r.form_id = e.form_id and r.patient_id = w.client_id and r.submitted_at = w.completed_at
     where q.question_type in ('short_text', 'long_text') and length(c.value) > 8
       and c.value !~ '["\r\n]' and c.value not in (select value from intake.export_cells group by 1 having count(*) > 1)
     order by 1, 2, 3 limit 1 offset $1`,
    [later],
  )
  return cell!
}

describe('when an export has different content', () => {
  it('the response and the position of the column are reported, and no value', async () => {
    const cell = await someCell()
    const origin = await startProxy((text, { method }) =>
      method === 'POST' ? text.replace(cell.value, 'Canary') : text,
    )
    const ended = await verify({ INTAKE_BASE_URL: origin })
    expect(ended.code).toBe(4)
    expect(ended.output).not.toContain('Canary')
    const { export_id, response_id, row_number, position } = cell
    expect(deepOf(ended).differences).toEqual([{ export_id, response_id, row_number, position }])
    const [stored] = await scene.query<{ places: number }>(
      `select jsonb_array_length(deep -> 'differences') as places from intake_ops.verifications
       where stream = 'exports' order by run_id desc limit 1`,
    )
    expect(stored).toEqual({ places: 1 })
  })
})

it('a difference that only one of the two readings shows does not count', async () => {
  const [first, second] = [await someCell(), await someCell(1)]
  const times = { first: 0, second: 0 }
  const origin = await startProxy((text, { method }) => {
    if (method !== 'POST') return text
    const [hasFirst, hasSecond] = [text.includes(first.value), text.includes(second.value)]
    if (hasFirst && ++times.first === 1) return text.replace(first.value, 'Canary')
    return hasSecond && ++times.second === (hasFirst ? 1 : 2) ? text.replace(second.value, 'Canary') : text
  })
  const ended = await verify({ INTAKE_BASE_URL: origin })
  expect(times).toEqual({ first: 2, second: first.export_id === second.export_id ? 1 : 2 })
  expect(deepOf(ended).differences).toEqual([])
  expect(ended.output).not.toContain('Canary')
})

it('requires both streams', async () => {
  const ended = await runCommand(['verify', '--deep', '--streams', 'responses'], scene.env)
  expect(ended.code).toBe(2)
})

it('is not done where one of the streams cannot be read, and then nothing is equal', async () => {
  const origin = await startProxy((text, { url }) => (url!.includes('responses') ? null : text))
  const ended = await verify({ INTAKE_BASE_URL: origin })
  expect(ended.code).toBe(1)
  expect(JSON.parse(ended.stdout)).toMatchObject({
    ...{ equal: false, deep: null },
    streams: { responses: { source: null }, exports: { source: expect.any(Number) } },
  })
})

it('a team whose channels differ needs attention, though those of another team agree', async () => {
  const { value } = await someCell()
  const origin = await startProxy((text, { method }) =>
    method === 'POST' ? text.replace(value, 'Canary') : text,
  )
  const { INTAKE_BASE_URL: baseUrl, INTAKE_API_KEY: apiKey, INTAKE_API_SECRET: apiSecret } = scene.env
  const member = { baseUrl: baseUrl!, apiKey: apiKey!, apiSecret: apiSecret! }
  const variables = (of: string) => ({
    ...configOf([
      { ...member, name: 'default', baseUrl: of },
      { ...member, name: 'other' },
    ]),
    ...{ DATABASE_URL: scene.url, LOG_LEVEL: 'error' },
  })
  // Both channels of the warehouse are as the service gives them.
  expect((await runCommand(['backfill', '--full'], variables(origin))).code).toBe(0)
  const words = ['verify', '--deep', '--json', '--streams', 'responses,exports']
  const ended = await runCommand(words, variables(origin))
  const { equal, teams } = JSON.parse(ended.stdout)
  expect(teams.default.deep.differences).toHaveLength(1)
  expect(teams.other.deep.differences).toEqual([])
  expect([ended.code, equal]).toEqual([4, false])
  const stored = await scene.query(
    `select team.name, jsonb_array_length(deep -> 'differences') as places
     from intake_ops.verifications join intake.teams team using (team_id)
     where stream = 'exports' and run_id = (select max(run_id) from intake_ops.verifications) order by 1`,
  )
  expect(stored).toEqual([
    { name: 'default', places: 1 },
    { name: 'other', places: 0 },
  ])
})
