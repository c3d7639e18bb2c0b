/**
 * What the warehouse knows of each team's webhooks: counts by hour, the service's own list of deliveries, its
 * configurations as the last backfill listed them.
 *
 * Invariant: a delivery counts as missing only when it went by a configuration of ours: one whose secret is stored
 * here, or by which something reached the inbox. Other receivers of the team are none of our business.
 */
import { type Kysely, sql } from 'kysely'
import { isRemoved } from '../../load/teams.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import type { Signs } from './silence.ts'

export interface TeamSigns extends Signs {
  readonly team: string
}

export interface SignsAsked {
  /** Bounds how far back deliveries are looked for in the inbox. */
  readonly inboxDays: number
  /** Name of the one team that is asked about; all when left out. */
  readonly team?: string
}

export async function readSigns(
  db: Kysely<Warehouse>,
  { inboxDays, team }: SignsAsked,
): Promise<readonly TeamSigns[]> {
  const { rows: asked } = await sql<{ team_id: number }>`
    select team_id from intake.teams 
    where (${team ?? null}::text is null or name = ${team ?? null}) and not ${isRemoved(sql.ref('teams.team_id'))}`.execute(
    db,
  )
  const ids = asked.map(({ team_id }) => team_id)
  const rates = await readRates(db, ids)
  const deliveries = byTeam(await readDeliveries(db, ids, inboxDays))
  const untold = byTeam(await readUntold(db, ids))
  return rates.map(({ team_id, ...rate }) => {
    const told = deliveries.get(team_id)
    const { active = 0, inactive = 0, gone = 0 } = told ?? {}
    return {
      ...rate,
      deliveredMissing: told?.delivered_missing ?? 0,
      failedMissing: told?.failed_missing ?? 0,
      configurations: { active, inactive, gone },
      untold: untold.get(team_id)?.untold ?? 0,
    }
  })
}

function byTeam<Row extends { readonly team_id: number }>(rows: readonly Row[]): ReadonlyMap<number, Row> {
  return new Map(rows.map((row) => [row.team_id, row]))
}

type Rates = Pick<
  TeamSigns,
  'team' | 'lastEventAt' | 'lastDay' | 'dailyMean' | 'sameDayLastWeek' | 'sameHoursLastWeek'
>

async function readRates(
  db: Kysely<Warehouse>,
  ids: readonly number[],
): Promise<readonly (Rates & { team_id: number })[]> {
  const { rows } = await sql<Rates & { team_id: number }>`
    with counted as (
      select team.team_id, team.name as team,
        max(held.last_at) as last_at,
        min(held.hour) as since,
        coalesce(sum(held.events) filter (where held.hour > now() - interval '1 day'), 0) as last_day,
        coalesce(sum(held.events) filter (where held.hour > now() - interval '8 days'
          and held.hour <= now() - interval '1 day'), 0) as days_before,
        coalesce(sum(held.events) filter (where held.hour > now() - interval '8 days'
          and held.hour <= now() - interval '7 days'), 0) as same_day,
        extract(epoch from now() - interval '1 day' - min(held.hour)) / 86400 as days
      from intake.teams team left join intake_ops.events_received held using (team_id)
      where team.team_id = any (${ids}::smallint[])
      group by team.team_id, team.name
    )
    select team_id, team,
      last_at as "lastEventAt",
      last_day::float8 as "lastDay",
      case when days >= 1 then (days_before / least(days, 7))::float8 end as "dailyMean",
      case when since <= now() - interval '8 days' then same_day::float8 end as "sameDayLastWeek",
      case when since <= date_trunc('hour', last_at) - interval '7 days' then (
        select coalesce(sum(before.events), 0)::float8 from intake_ops.events_received before
        where before.team_id = counted.team_id
          and before.hour > date_trunc('hour', counted.last_at) - interval '7 days'
          and before.hour < date_trunc('hour', now()) - interval '7 days'
      ) end as "sameHoursLastWeek"
    from counted order by team`.execute(db)
  return rows
}

interface Deliveries {
  readonly team_id: number
  readonly delivered_missing: number
  readonly failed_missing: number
  readonly active: number
  readonly inactive: number
  readonly gone: number
}

async function readDeliveries(
  db: Kysely<Warehouse>,
  ids: readonly number[],
  inboxDays: number,
): Promise<readonly Deliveries[]> {
  const { rows } = await sql<Deliveries>`
    with told as materialized (
      select delivery.team_id, delivery.webhook_config_id as config_id, delivery.event_id,
        min(delivery.created_at) as first_at,
        bool_or(coalesce(delivery.response_status_code between 200 and 299,
          delivery.status ~* '^(succe|deliver|ok)', false)) as is_delivered,
        coalesce(max(delivery.next_retry_at) > now(), false) as is_retried
      from intake.webhook_deliveries delivery
      where delivery.team_id = any (${ids}::smallint[])
        and delivery._deleted_at is null and delivery.event_id is not null
        and delivery.created_at > now() - make_interval(days => ${inboxDays}::int)
      group by 1, 2, 3
    ), listed as materialized (
      select told.*, exists (
        select from intake_raw.inbox inbox
        where inbox.team_id = told.team_id and inbox.event_id = told.event_id
      ) as is_held
      from told
    ), ours as materialized (
      select team_id, config_id, created_at as since from intake_ops.webhook_secrets
      where team_id = any (${ids}::smallint[]) and retired_at is null
      union all
      select team_id, config_id, min(first_at) from listed where is_held group by 1, 2
    ), missing as (
      select listed.team_id,
        count(*) filter (where is_delivered)::int as delivered_missing,
        count(*) filter (where not is_delivered and not is_retried)::int as failed_missing
      from listed
      join (select team_id, config_id, min(since) as since from ours group by 1, 2) own using (team_id, config_id)
      where not listed.is_held and listed.first_at >= own.since
      group by 1
    ), configured as (
      select config.team_id,
        count(*) filter (where config._deleted_at is null and config.is_active is not false)::int as active,
        count(*) filter (where config._deleted_at is null and config.is_active is false)::int as inactive,
        count(*) filter (where config._deleted_at is not null)::int as gone
      from intake.webhook_configs config
      where (config.team_id, config.id) in (select team_id, config_id from ours)
      group by 1
    )
    select team_id,
      coalesce(delivered_missing, 0) as delivered_missing, coalesce(failed_missing, 0) as failed_missing,
      coalesce(active, 0) as active, coalesce(inactive, 0) as inactive, coalesce(gone, 0) as gone
    from configured full join missing using (team_id)`.execute(db)
  return rows
}

/** What events tell of and backfills read too (specification, section 6). */
const SOURCES = ['patient', 'form', 'packet', 'document', 'response']

/**
 * Changes that the newest backfill found in streams that events tell of, where none came since the backfill before
 * began although a configuration that was there by then sends everything.
 */
async function readUntold(
  db: Kysely<Warehouse>,
  ids: readonly number[],
): Promise<readonly { team_id: number; untold: number }[]> {
  const told = ALL_STREAMS.filter(({ source }) => source !== undefined && SOURCES.includes(source))
  const { rows } = await sql<{ team_id: number; untold: number }>`
    with part as (
      select part.team_id, part.stream, part.changed + part.deleted as found,
        row_number() over newest_first as place,
        lead(run.started_at) over newest_first as before_at
      from intake_ops.run_streams part join intake_ops.runs run using (run_id)
      where part.team_id = any (${ids}::smallint[]) and run.kind = 'backfill' and part.status in ('succeeded', 'needs_attention')
        and part.stream = any (${told.map(({ name }) => name)}::text[])
      window newest_first as (partition by part.team_id, part.stream order by run.run_id desc)
    )
    select part.team_id, sum(part.found)::int as untold
    from part
    where part.place = 1 and part.found > 0 and exists (
      select from intake.webhook_configs config
      join intake_ops.webhook_secrets secret on (secret.team_id, secret.config_id) = (config.team_id, config.id)
      where config.team_id = part.team_id and secret.retired_at is null
        and config._deleted_at is null and config.is_active is not false and config.created_at < part.before_at
        and config.sources @> ${SOURCES}::text[]
        and config.event_types @> '{created,updated,deleted}'
    ) and not exists (
      select from intake_ops.events_received received
      where received.team_id = part.team_id and received.last_at >= part.before_at
    )
    group by part.team_id`.execute(db)
  return rows
}
