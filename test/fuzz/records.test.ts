/**
 * Any record: it is in its table with its payload as received, or is a dead letter with its body; a value that could not
 * be shown is a problem of its row.
 */
import fc from 'fast-check'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { canonicalText } from '../../src/core/canonical.ts'
import { isObject, type JsonObject, parseText } from '../../src/core/json.ts'
import { storable, storableText } from '../../src/normalize/read-record.ts'
import { firstOf, type Stream } from '../../src/streams/stream.ts'
import { startService } from '../api/support/service.ts'
import { withoutPauses } from '../e2e/support/impatient.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'
import { runCommand } from '../support/run-command.ts'
import { expectNoStack, holds, PATIENCE } from './budget.ts'
import { keyOf, pathOf, READ, world } from './odd-records.ts'

withoutPauses()

let warehouse: TestDatabase

beforeAll(async () => {
  warehouse = await openWarehouse()
})

afterAll(async () => {
  await warehouse.drop()
})
let teams = 0

it(
  'every record of every list is in its table, or is a dead letter, whatever is wrong with it',
  PATIENCE,
  async () => {
    await holds(
      fc.asyncProperty(world, async (lists) => {
        const parsed = new Map(
          Object.entries(lists).map(([name, texts]) => [
            name,
            texts.map((text) => ({ text, value: parseText(text) as JsonObject })),
          ]),
        )
        await using service = await startService(({ url }, response) => {
          const path = new URL(url, 'http://any.invalid').pathname
          const whole = READ.find(({ name }) => pathOf(name) === path)
          const send = (status: number, body: string) =>
            response.writeHead(status, { 'content-type': 'application/json' }).end(body)
          if (whole !== undefined) {
            const texts = lists[whole.name]!
            return void send(
              200,
              `{"count":${texts.length},"next":null,"previous":null,"results":[${texts.join()}]}`,
            )
          }
          const stream = READ.find(({ name }) => path.startsWith(`${pathOf(name)}/`))
          const id = decodeURIComponent(path.slice(path.lastIndexOf('/') + 1))
          const found = parsed.get(stream?.name ?? '')?.find(({ value }) => keyOf(value.id) === id)
          send(found === undefined ? 404 : 200, found?.text ?? '{"detail":"Not found."}')
        })
        const team = `case-${++teams}`
        const run = await runCommand(
          ['backfill', '--json', '--streams', READ.map(({ name }) => name).join()],
          {
            ...{ INTAKE_BASE_URL: service.url, INTAKE_API_KEY: 'key', INTAKE_API_SECRET: 'secret' },
            ...{ DATABASE_URL: warehouse.url, INTAKE_TEAM: team, LOG_LEVEL: 'silent' },
          },
        )
        const { streams } = JSON.parse(run.stdout) as { streams: Record<string, { dead_letters: number }> }
        expect(run.code).toBe(Object.values(streams).some((each) => each.dead_letters > 0) ? 4 : 0)
        expectNoStack(run.output)
        for (const stream of READ)
          await expectAll(
            team,
            stream,
            parsed.get(stream.name)!.map(({ value }) => value),
          )
      }),
      5,
    )
  },
)

async function expectAll(team: string, stream: Stream, records: readonly JsonObject[]): Promise<void> {
  const keyed = new Map(
    records.flatMap((record) => (keyOf(record.id) === null ? [] : [[keyOf(record.id)!, record] as const])),
  )
  const unkeyed = records.filter((record) => keyOf(record.id) === null)
  const deadLetters = await query<{ id: string | null; body: Buffer }>(
    warehouse.url,
    `select l.record_id as id, s.body from intake_ops.dead_letters l join intake_raw.set_aside s on s.dead_letter_id = l.id
     join intake.teams t using (team_id) where t.name = $1 and l.stream = $2`,
    [team, stream.name],
  )
  const exactly = stream.cleanse === undefined
  const bodies = new Set(
    deadLetters.map(({ body }) => (exactly ? canonicalText(parseText(body.toString())) : body.toString())),
  )
  if (exactly) for (const record of unkeyed) expect(bodies).toContain(canonicalText(record))
  else expect(deadLetters.filter(({ id }) => id === null).length > 0).toBe(unkeyed.length > 0)

  const ids = [...keyed.keys()]
  const kept = ids.map((id) => canonicalText(storable(keyed.get(id), false, [])))
  const rows = await query<{
    id: string
    same: boolean
    row: Record<string, unknown>
    problems: { path: string }[] | null
  }>(
    warehouse.url,
    `select came.id, raw.payload = came.kept::jsonb as same, to_jsonb(shown) as row, shown._problems as problems
     from unnest($3::text[], $4::text[]) as came (id, kept)
     join intake.teams t on t.name = $1
     join intake_raw.records raw on raw.team_id = t.team_id and raw.stream = $2 and raw.id = came.id and not raw.deleted
     join intake.${stream.table} shown on shown.team_id = t.team_id and shown.id = came.id and shown._deleted_at is null`,
    [team, stream.name, ids, kept],
  )
  const found = new Map(rows.map((row) => [row.id, row]))
  const aside = new Set(deadLetters.map(({ id }) => id))
  for (const [id, record] of keyed) {
    const stored = found.get(id)
    if (stored === undefined) {
      expect(aside, `${stream.name} ${id} is nowhere`).toContain(id)
      continue
    }
    if (exactly) expect(stored.same, `${stream.name} ${id}`).toBe(true)
    expectShown(stream, record, stored.row, stored.problems ?? [])
  }
}

/** A text is in its column as received; a value that is not in its column is reported. */
function expectShown(
  stream: Stream,
  record: JsonObject,
  row: Record<string, unknown>,
  problems: readonly { path: string }[],
): void {
  for (const { name, type, from, read } of stream.columns) {
    const { field, value } = firstOf(record, from)
    // Columns with special reading are covered by the fixtures of their stream.
    if (read !== undefined) continue
    if (value === undefined || value === null || value === '') continue
    const shown = row[name]
    if (type === 'text' && typeof value === 'string')
      expect(shown, `${stream.name}.${name}`).toBe(storableText(value, false))
    else if (shown === null && !isNoReference(type, value)) {
      expect(
        problems.some(
          ({ path }) => path === field || path.startsWith(`${field}.`) || path.startsWith(`${field}[`),
        ),
        `${stream.name}.${name}`,
      ).toBe(true)
    }
  }
}

/** Values without content, which need no report: a blank, an empty object, an id that is null. */
function isNoReference(type: string, value: unknown): boolean {
  if (type !== 'reference') return false
  if (typeof value === 'string') return value.trim() === ''
  return (
    isObject(value) &&
    (Object.keys(value).length === 0 || 'id' in value || 'uid' in value) &&
    keyOf(value.id) === null &&
    keyOf(value.uid) === null
  )
}
