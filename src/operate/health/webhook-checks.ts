/**
 * The checks whether webhooks still come, team by team: each with its own time, all within one.
 *
 * Invariant: a team whose deliveries take long to compare costs the others nothing but that time: it is left out, and
 * who was not looked at comes first the next time.
 */
import { type Kysely, sql } from 'kysely'
import { isRemoved } from '../../load/teams.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import { withinBudget } from '../../warehouse/within-budget.ts'
import { readWebhooks, type WebhookStatus } from './team-status.ts'

export interface WebhookChecks {
  /** Looks at these teams, or at all; whoever is not in the answer could not be judged. */
  check(db: Kysely<Warehouse>, teams: readonly string[] | null): Promise<readonly WebhookStatus[]>
}

export interface ChecksOptions {
  readonly inboxDays: number
  /** For one team. */
  readonly eachMs?: number
  /** For all teams. */
  readonly allMs?: number
}

const EACH_MS = 2_000
const ALL_MS = 5_000

export function openWebhookChecks({
  inboxDays,
  eachMs = EACH_MS,
  allMs = ALL_MS,
}: ChecksOptions): WebhookChecks {
  /** When each team was last looked at, by number of the look. */
  const lookedAt = new Map<string, number>()
  let looks = 0
  return {
    async check(db, teams) {
      const end = performance.now() + allMs
      const found: WebhookStatus[] = []
      const known = await namesOf(db)
      const wanted = known.filter((name) => teams === null || teams.includes(name))
      for (const name of lookedAt.keys()) if (!known.includes(name)) lookedAt.delete(name)
      wanted.sort((a, b) => (lookedAt.get(a) ?? 0) - (lookedAt.get(b) ?? 0))
      for (const team of wanted) {
        const left = end - performance.now()
        if (left <= 0) break
        looks += 1
        lookedAt.set(team, looks)
        const asked = { inboxDays, team }
        found.push(...((await withinBudget(db, Math.min(eachMs, left), () => readWebhooks(db, asked))) ?? []))
      }
      return found
    },
  }
}

async function namesOf(db: Kysely<Warehouse>): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`
    select name from intake.teams where not ${isRemoved(sql.ref('teams.team_id'))} order by team_id`.execute(
    db,
  )
  return rows.map(({ name }) => name)
}
