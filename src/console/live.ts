/**
 * Server-sent events: an open page learns that something changed, never what.
 *
 * Invariant: one short query every two seconds for all pages together, and none while no page is open. In two seconds at
 * most ten pages are asked to load again, in turn, so that the cost of many open pages is bounded.
 */
import type { FastifyInstance } from 'fastify'
import { type Kysely, sql } from 'kysely'
import type { Warehouse } from '../warehouse/tables.ts'
import { Refusal } from './access.ts'
import type { Shared } from './shared.ts'

const EVERY_MS = 2_000
const MAX_PAGES = 500
/** A change is announced to each page this often: readings of the last seconds may not show it yet. */
const TIMES = 3
const PAGES_AT_ONCE = 10

interface OpenPage {
  write(text: string): void
  end(): void
  isIn(): boolean
  /** Announcements that it is still to get. */
  owed: number
}

export function serveLive(app: FastifyInstance, { readings, signal, sessions }: Shared): void {
  /** Those that were asked last are last. */
  const pages = new Set<OpenPage>()
  let seen: string | null = null
  let timer: NodeJS.Timeout | undefined

  async function look(): Promise<void> {
    let now: string
    try {
      now = await readings.look(readTrace)
    } catch {
      now = 'unreachable'
    }
    if (seen !== null && now !== seen) for (const page of pages) page.owed = TIMES
    seen = now
    let asked = 0
    for (const page of [...pages]) {
      if (!page.isIn()) page.end()
      else if (page.owed > 0 && asked < PAGES_AT_ONCE) {
        asked += 1
        page.owed -= 1
        pages.delete(page)
        pages.add(page)
        page.write('event: changed\ndata: {}\n\n')
      } else page.write(': same\n\n')
    }
    timer = pages.size === 0 || signal.aborted ? undefined : setTimeout(look, EVERY_MS).unref()
  }

  app.get('/live', { config: { role: 'viewer' } }, (request, reply) => {
    if (pages.size >= MAX_PAGES) throw new Refusal(503, 'too many pages are open')
    const { raw } = reply
    const { id } = request.visitor!
    reply.hijack()
    raw.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
    raw.write('retry: 3000\n\n')
    const page: OpenPage = {
      owed: 0,
      // A reader that does not read gets no more.
      write: (text: string) => void (raw.writableNeedDrain || raw.write(text)),
      end: () => void raw.end(),
      isIn: () => sessions.isOpen(id),
    }
    pages.add(page)
    raw.on('close', () => pages.delete(page))
    timer ??= setTimeout(look, EVERY_MS).unref()
  })

  signal.addEventListener('abort', () => {
    clearTimeout(timer)
    for (const page of pages) page.end()
  })
}

/** Changes when runs, dead letters, verifications, received events or the oldest pending event change. */
export async function readTrace(db: Kysely<Warehouse>): Promise<string> {
  const { rows } = await sql<{ trace: string }>`
    select concat_ws(' ',
      (select concat(run_id, status) from intake_ops.runs order by run_id desc limit 1),
      (select count(*) from intake_ops.runs where status = 'running'),
      (select concat(count(*), ' ', max(dead_letter.id)) from intake_ops.dead_letters dead_letter where status = 'waiting'),
      (select concat(count(*), max(part.run_id)) from intake_ops.run_streams part
        where run_id = (select max(run_id) from intake_ops.runs)),
      (select last_value from intake_raw.inbox_seq),
      (select min(first.seq) from intake.teams team cross join lateral (
        select seq from intake_raw.inbox where team_id = team.team_id and status = 'pending' order by seq limit 1
      ) first),
      (select max(audit_id) from intake_ops.audit)
    ) as trace`.execute(db)
  return rows[0]!.trace
}
