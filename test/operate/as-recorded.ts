/**
 * Compares two teams with every kind of trouble with test/operate/recorded: each row of one of them in every table and view,
 * the pages of the console, and the output of commands. What no other test looks at cannot change unnoticed. After an intended
 * change, `npx vitest run test/operate/twins.test.ts -u` updates the recordings; read the difference before you commit it.
 *
 * Invariant: what differs from run to run is replaced by a word in capitals or left out; everything else is compared.
 */
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startConsole, wholeAnswer } from '../console/support/console.ts'
import { withSession } from '../support/sessions.ts'
import { relations } from '../support/team-rows.ts'
import type { Twins } from '../support/twins.ts'

const FOLDER = join(import.meta.dirname, 'recorded')

/** Each becomes the name of its file. */
const COMMANDS = [
  'access list',
  'backfill --dry-run --json --team north',
  'classify list --csv --team north',
  'classify list --json --team north',
  'classify list',
  'classify tag',
  'dead-letters list --status all --team north',
  'dead-letters list --json --team north',
  'explain packet_responses v --team north',
  'explain patients p10 --team north',
  'explain patients p11 --json --team north',
  'explain patients p11 --show-values --team north',
  'explain responses r1 --team south',
  'instruments list',
  'privacy report',
  'runs --json',
  'runs show 2',
  'runs',
  'status --json',
  'status',
  'teams list --json',
  'teams list',
  'webhooks events --team north',
  'webhooks list --team north',
] as const

/** Pages of the console by the names of their files; not /health, which shows the size of the server. */
const PAGES = {
  overview: '/',
  streams: '/streams',
  stream: '/streams/north/patients',
  insights: '/insights',
  inbox: '/inbox',
  'dead letters': '/dead-letters',
  runs: '/runs',
  run: '/runs/2',
  verify: '/verify',
  verification: '/verify/5/north/patients',
  questions: '/questions',
  event: '/events?team=north&id=second-gone',
  record: '/records?team=north&stream=patients&id=p11',
  audit: '/audit',
} as const

/** Tables and columns that differ from run to run. */
const LEFT_OUT: readonly string[] = [
  // What the timing of a run decides.
  'intake_ops.budgets',
  'intake_ops.run_log',
  'intake_ops.run_progress',
  'intake_analytics.freshness.lag',
  // The two teams are read at the same time, so either may have the first number.
  'intake_ops.dead_letters.id',
  'intake_raw.set_aside.dead_letter_id',
  // With a key of this warehouse.
  'intake_ops.erasures.hash',
  'intake_ops.erasures.patient_hash',
  // The login of the test.
  'intake_ops.access.granted_by',
]

/** In this order. */
const REPLACED: readonly (readonly [RegExp, string])[] = [
  [/\bnode \d+\.\d+\.\d+/g, 'node VERSION'],
  [/http:\/\/127\.0\.0\.1:\d+/g, 'SERVICE'],
  [/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'UUID'],
  [/"(change_seq|_change_seq)":\d+/g, '"$1":NUMBER'],
  // A fingerprint of an address; a sealed secret; the process of a worker.
  [/"(source|secret)":"(\\\\x)?[0-9a-f]{16,}"/g, '"$1":"HASH"'],
  [/"owner": ?"[^"]*"/g, '"owner":"OWNER"'],
  // Of dead letters.
  [/"id": \d+/g, '"id": NUMBER'],
  [/^ *\d+(?= +(inbox|packet_responses|patients|responses) )/gm, 'NUMBER'],
  // Of 1980: fifty from 2030 on.
  [/"age_band":"\d\d-\d\d"/g, '"age_band":"AGE"'],
  [/("\w*(seconds|hours|minutes|lag)\w*": ?)[\d.]+/g, '$1DURATION'],
  [/\b[\d.]+ (ms|s|min|h)( [\d.]+ (s|min))?\b/g, 'DURATION'],
  // Only what takes more than a second is in the log.
  [/^log \(UTC\):\n[\s\S]*(?=exit code)/gm, ''],
  [/^Log\n[\s\S]*(?=^intake-sync )/gm, ''],
  // Widths of columns follow what was replaced.
  [/ {2,}/g, '  '],
  // Rows a second.
  [/(ago {2}succeeded {2})[\d,.]+/g, '$1RATE'],
  // Nothing until autovacuum has analyzed the table.
  [/^(other days {2})(–|[\d,]+)(?= )/gm, '$1ESTIMATE'],
  // Of the last year only.
  [/^(Table {2}week .*\n(\d{4}-.*\n)+|Nothing was asked or sent in the last year\.\n)/gm, ''],
]

/** Times of this run, which may be of two days. */
function withoutTimes(text: string): string {
  const days = [-1, 0, 1].map((days) => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10))
  return text
    .replaceAll(new RegExp(`(${days.join('|')})[T ][0-9:.]+(Z|\\+00(:00)?)?`, 'g'), 'NOW')
    .replaceAll(new RegExp(days.join('|'), 'g'), 'TODAY')
}

const asRecordedHere = (text: string) =>
  REPLACED.reduce((rest, [found, by]) => rest.replaceAll(found, by), withoutTimes(text))

/** By schema: a line for each table and view, followed by its rows. */
async function rowsBySchema(url: string, teamId: number): Promise<ReadonlyMap<string, string>> {
  const schemas = new Map<string, string>()
  const found = await relations(url, true)
  await withSession(url, async (client) => {
    await client.query("set timezone to 'UTC'")
    for (const { name } of found.filter((each) => !LEFT_OUT.includes(each.name))) {
      const { rows } = await client.query<{ row: Record<string, unknown> }>(
        `select jsonb_strip_nulls(to_jsonb(t) - 'team_id') as row from ${name} t where team_id = $1`,
        [teamId],
      )
      const lines = rows.map(({ row }) =>
        asRecordedHere(
          JSON.stringify(row, (key, value: unknown) =>
            LEFT_OUT.includes(`${name}.${key}`) ? undefined : value,
          ),
        ),
      )
      const [schema] = name.split('.') as [string]
      const earlier = schemas.get(schema) ?? ''
      schemas.set(schema, `${earlier}${[`# ${name}`, ...lines.sort()].join('\n')}\n`)
    }
  })
  return schemas
}

/** The text of a page, a line for each paragraph, row or entry, with the addresses of its links. */
function textOf(html: string): string {
  const text = html
    .replaceAll(/<(head|script|style|svg)[\s\S]*?<\/\1>/g, '')
    .replaceAll(/<a [^>]*href="([^"]*)"[^>]*>/g, '[$1] ')
    .replaceAll(/\s+/g, ' ')
    .replaceAll(/<\/(p|tr|li|h\d|div|section|dd|caption|option)>/g, '\n')
    .replaceAll(/<[^>]*>/g, ' ')
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join('\n')
}

export function asRecorded(twinsOf: () => Twins): void {
  describe('as recorded:', () => {
    it('every row of north, in every table and view', async () => {
      const { url, north } = twinsOf()
      for (const [schema, rows] of await rowsBySchema(url, north.teamId))
        await expect(rows).toMatchFileSnapshot(join(FOLDER, `${schema}.jsonl`))
    })

    it('every page of the console', async () => {
      const console = await startConsole(twinsOf().url)
      try {
        const reader = await console.enter('steward')
        for (const [name, path] of Object.entries(PAGES)) {
          const { status, text } = await wholeAnswer(reader, path)
          await expect(asRecordedHere(`${path}: ${status}\n${textOf(text)}\n`)).toMatchFileSnapshot(
            join(FOLDER, `page-${name.replaceAll(' ', '-')}.txt`),
          )
        }
      } finally {
        await console.close()
      }
    })

    it.each(COMMANDS)('%s', async (command) => {
      const { code, output } = await twinsOf().run(...command.split(' '))
      await expect(asRecordedHere(`${output}exit code ${code}\n`)).toMatchFileSnapshot(
        join(FOLDER, `${command.replaceAll(/[ -]+/g, '-')}.txt`),
      )
    })
  })
}
