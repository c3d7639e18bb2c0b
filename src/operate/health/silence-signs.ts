/**
 * Reads the signs of silence from the warehouse: hourly counts of events, the service's list of deliveries, and its
 * webhook configurations as of the last backfill.
 *
 * Invariant: a delivery counts as missing only if its configuration sends to this warehouse: its secret is stored here,
 * or one of its events reached the inbox. Configurations of other receivers are ignored.
 */
import { type Kysely, type RawBuilder, sql } from 'kysely'
import { isRemoved } from '../../load/teams.ts'
import { ALL_STREAMS } from '../../streams/catalogue.ts'
import type { Warehouse } from '../../warehouse/tables.ts'
import type { Signs } from './silence.ts'

export interface TeamSigns extends Signs {
  readonly team: string
}

export interface SignsOptions {
  /** Days of the inbox; older deliveries are ignored. */
  readonly inboxDays: number
  /** Default: every team. */
  readonly team?: string
}

export async function readSigns(
  db: Kysely<Warehouse>,
  { inboxDays, team }: SignsOptions,
): Promise<readonly TeamSigns[]> {
  const { rows: teams } = await sql<{ team_id: number }>`
    select team_id from intake.teams
    where (${team ?? null}::text is null or name = ${team ?? null}) and not ${isRemoved(sql.ref('teams.team_id'))}`.execute(
    db,
  )
  const ids = teams.map(({ team_id }) => team_id)
  const rates = await readRates(db, ids)
  const deliveries = byTeam(await readDeliveries(db, ids, inboxDays))
  const unreported = byTeam(await readUnreported(db, ids))
  return rates.map(({ team_id, ...rate }) => {
    const delivery = deliveries.get(team_id)
    const { active = 0, inactive = 0, gone = 0 } = delivery ?? {}
    return {
      ...rate,
      deliveredMissing: delivery?.delivered_missing ?? 0,
      failedMissing: delivery?.failed_missing ?? 0,
      configurations: { active, inactive, gone },
      unreported: unreported.get(team_id)?.unreported ?? 0,
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
        max(received.last_at) as last_at,
        min(received.hour) as since,
        coalesce(sum(received.events) filter (where received.hour > now() - interval '1 day'), 0) as last_day,
        coalesce(sum(received.events) filter (where received.hour > now() - interval '8 days'
          and received.hour <= now() - interval '1 day'), 0) as days_before,
        coalesce(sum(received.events) filter (where received.hour > now() - interval '8 days'
          and received.hour <= now() - interval '7 days'), 0) as same_day,
        extract(epoch from now() - interval '1 day' - min(received.hour)) / 86400 as days
      from intake.teams team left join intake_ops.events_received received using (team_id)
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

/** Events that have to be looked for (intake_ops.delivery_checks), each with its attempts, and whether it was received. */
function checkedEvents(ids: readonly number[], inboxDays: number): RawBuilder<unknown> {
  return sql`
    deliveries as materialized (
      select delivery.team_id, delivery.webhook_config_id as config_id, delivery.event_id,
        min(delivery.created_at) as first_at,
        bool_or(coalesce(delivery.response_status_code between 200 and 299,
          delivery.status ~* '^(succe|deliver|ok)', false)) as is_delivered,
        coalesce(max(delivery.next_retry_at) > now(), false) as is_retried
      from intake_ops.delivery_checks listed
      join intake.webhook_deliveries delivery
        on delivery.team_id = listed.team_id and delivery.webhook_config_id = listed.config_id
          and delivery.event_id = listed.event_id
      where listed.team_id = any (${[...ids]}::smallint[])
        and delivery._deleted_at is null
        and delivery.created_at > now() - make_interval(days => ${inboxDays}::int)
      group by 1, 2, 3
    ), listed as materialized (
      select deliveries.*, exists (
        select from intake_raw.inbox inbox
        where inbox.team_id = deliveries.team_id and inbox.event_id = deliveries.event_id
      ) or exists (
        select from intake_ops.removed_events removed
        where removed.team_id = deliveries.team_id
          and removed.event_hash = sha256(convert_to(deliveries.event_id, 'UTF8'))
      ) as is_received
      from deliveries
    )`
}

/** Configurations that send to this warehouse, and since when. */
function ownConfigurations(ids: readonly number[], inboxDays: number): RawBuilder<unknown> {
  return sql`
    ours as materialized (
      select team_id, config_id, created_at as since from intake_ops.webhook_secrets
      where team_id = any (${[...ids]}::smallint[]) and retired_at is null
      union all
      select team_id, config_id, first_at from intake_ops.delivery_configs
      where team_id = any (${[...ids]}::smallint[]) and last_at > now() - make_interval(days => ${inboxDays}::int)
      union all
      select team_id, config_id, min(first_at) from listed where is_received group by 1, 2
    )`
}

/**
 * Settles the check of deliveries: events that were received, have expired, or are of other receivers need not be looked
 * for again. `teams`: of these only, by name; null: of all.
 */
export async function settleDeliveries(
  db: Kysely<Warehouse>,
  inboxDays: number,
  teams: readonly string[] | null = null,
): Promise<void> {
  const { rows } = await sql<{ team_id: number }>`
    select team_id from intake.teams where ${teams}::text[] is null or name = any(${teams}::text[]) order by 1`.execute(
    db,
  )
  for (const { team_id } of rows) {
    await sql`
      with ${checkedEvents([team_id], inboxDays)}, ${ownConfigurations([team_id], inboxDays)}, received as (
        insert into intake_ops.delivery_configs as known (team_id, config_id, first_at, last_at)
        select team_id, config_id, min(first_at), max(first_at) from listed where is_received group by 1, 2 order by 1, 2
        on conflict (team_id, config_id) do update
          set first_at = least(known.first_at, excluded.first_at), last_at = greatest(known.last_at, excluded.last_at)
      )
      delete from intake_ops.delivery_checks checked
      where team_id = ${team_id} and not exists (
        select from listed
        where listed.config_id = checked.config_id and listed.event_id = checked.event_id and not listed.is_received
          and (listed.first_at > now() - interval '1 day' or exists (
            select from ours where ours.config_id = listed.config_id and ours.since <= listed.first_at
          ))
      )`.execute(db)
  }
}

async function readDeliveries(
  db: Kysely<Warehouse>,
  ids: readonly number[],
  inboxDays: number,
): Promise<readonly Deliveries[]> {
  const { rows } = await sql<Deliveries>`
    with ${checkedEvents(ids, inboxDays)}, ${ownConfigurations(ids, inboxDays)}, missing as (
      select listed.team_id,
        count(*) filter (where is_delivered)::int as delivered_missing,
        count(*) filter (where not is_delivered and not is_retried)::int as failed_missing
      from listed
      join (select team_id, config_id, min(since) as since from ours group by 1, 2) own using (team_id, config_id)
      where not listed.is_received and listed.first_at >= own.since
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

/** Streams that backfills read too, and whose events are certain (specification, section 6). */
const ANNOUNCED = ALL_STREAMS.filter(
  ({ source, sourceIsGuess, list }) => source !== undefined && sourceIsGuess !== true && list !== null,
)

/**
 * Counts the changes that the newest backfill found although webhooks should have reported them: no event arrived since
 * the previous backfill began, and a configuration for all events existed before that.
 */
async function readUnreported(
  db: Kysely<Warehouse>,
  ids: readonly number[],
): Promise<readonly { team_id: number; unreported: number }[]> {
  const { rows } = await sql<{ team_id: number; unreported: number }>`
    with part as (
      select part.team_id, part.stream, part.changed + part.deleted as found,
        row_number() over newest_first as place,
        lead(run.started_at) over newest_first as before_at
      from intake_ops.run_streams part join intake_ops.runs run using (run_id)
      where part.team_id = any (${ids}::smallint[]) and run.kind = 'backfill' and part.status in ('succeeded', 'needs_attention')
        and part.stream = any (${ANNOUNCED.map(({ name }) => name)}::text[])
      window newest_first as (partition by part.team_id, part.stream order by run.run_id desc)
    )
    select part.team_id, sum(part.found)::int as unreported
    from part
    where part.place = 1 and part.found > 0 and exists (
      select from intake.webhook_configs config
      join intake_ops.webhook_secrets secret on (secret.team_id, secret.config_id) = (config.team_id, config.id)
      where config.team_id = part.team_id and secret.retired_at is null
        and config._deleted_at is null and config.is_active is not false and config.created_at < part.before_at
        and config.sources @> ${ANNOUNCED.map(({ source }) => source)}::text[]
        and config.event_types @> '{created,updated,deleted}'
    ) and not exists (
      select from intake_ops.events_received received
      where received.team_id = part.team_id and received.last_at >= part.before_at
    )
    group by part.team_id`.execute(db)
  return rows
}
