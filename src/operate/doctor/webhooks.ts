/**
 * Checks that webhooks can be received and drained: secrets, encryption key, partitions of the inbox.
 *
 * Invariant: a check changes nothing and shows no part of a secret.
 */
import { sql } from 'kysely'
import type { Session } from '../../warehouse/connect.ts'
import { keyOf, open, placeOf, secretsInUse } from '../../warehouse/webhook-secrets.ts'
import { type Check, failed, ok, warning } from './check.ts'

export interface SecretTeam {
  readonly name: string
  /** Null if the team is not in the warehouse yet. */
  readonly teamId: number | null
  readonly configured: number
}

/** Without a session only the configured secrets count. */
export async function secretChecks(
  session: Session | null,
  teams: readonly SecretTeam[],
  encryptionKey: string | null,
): Promise<readonly Check[]> {
  const key = encryptionKey === null ? null : keyOf(encryptionKey)
  const checks: Check[] = []
  let encrypted = 0
  let unreadable = 0
  for (const team of teams) {
    const suffix = teams.length > 1 ? ` of ${team.name}` : ''
    const boxes =
      session === null || team.teamId === null ? [] : await secretsInUse(session.db, [team.teamId])
    let opened = 0
    for (const { box, ...place } of boxes) {
      encrypted += 1
      if (key !== null && opens(box, key, place)) opened += 1
      else unreadable += 1
    }
    checks.push(secretCheck(`webhook secret${suffix}`, team.configured, opened, boxes.length))
  }
  return [...checks, keyCheck(key !== null, encrypted, unreadable)]
}

function opens(box: Uint8Array, key: Buffer, place: { teamId: number; configId: string }): boolean {
  try {
    open(box, key, placeOf(place))
    return true
  } catch {
    return false
  }
}

function secretCheck(name: string, configured: number, opened: number, stored: number): Check {
  if (configured + opened > 0) return ok(name, `${configured} configured, ${opened} stored`)
  if (stored > 0)
    return failed(name, 'none is usable: the stored ones cannot be decrypted', 'see encryption key')
  return warning(
    name,
    'none: the response to every webhook is 503',
    'run intake-sync webhooks create, or set INTAKE_WEBHOOK_SECRETS',
  )
}

function keyCheck(isSet: boolean, encrypted: number, unreadable: number): Check {
  const name = 'encryption key'
  if (!isSet && encrypted > 0)
    return failed(
      name,
      `${encrypted} webhook secret(s) are stored encrypted, and INTAKE_ENCRYPTION_KEY is not set`,
      'set INTAKE_ENCRYPTION_KEY to the key that encrypted them',
    )
  if (unreadable > 0)
    return failed(
      name,
      `${unreadable} of ${encrypted} stored webhook secret(s) were encrypted with another key, or changed`,
      'set INTAKE_ENCRYPTION_KEY to the key that encrypted them; if it is lost, create the webhooks again',
    )
  if (isSet) return ok(name, encrypted === 0 ? 'set' : `set, and decrypts ${encrypted} stored secret(s)`)
  return warning(
    name,
    'INTAKE_ENCRYPTION_KEY is not set; webhooks create needs it',
    'set it to 32 random bytes: openssl rand -base64 32',
  )
}

const OLD_SECONDS = 900

export async function inboxCheck({ db }: Session): Promise<Check> {
  const { rows } = await sql<{
    today: boolean
    days: number
    rest: boolean
    pending: number
    oldest: number | null
  }>`
    select
      to_regclass('intake_raw.inbox_' || to_char(now() at time zone 'UTC', 'YYYYMMDD')) is not null as today,
      (select count(*)::int from pg_inherits where inhparent = 'intake_raw.inbox'::regclass) - 1 as days,
      exists (select from intake_raw.inbox_rest) as rest,
      (select count(*)::int from intake_raw.inbox where status = 'pending') as pending,
      (select extract(epoch from now() - min(received_at))::int from intake_raw.inbox where status = 'pending') as oldest`.execute(
    db,
  )
  const { today, days, rest, pending, oldest } = rows[0]!
  if (oldest !== null && oldest > OLD_SECONDS) {
    return failed(
      'inbox',
      `${pending} event(s) pending, the oldest for ${Math.round(oldest / 60)} minutes: nothing drains them`,
      'run intake-sync serve, and read its log',
    )
  }
  if (days > 0 && !today)
    return warning(
      'inbox',
      'there is no partition for today',
      'run intake-sync serve: it creates partitions ahead of time',
    )
  if (rest)
    return warning(
      'inbox',
      'events are in the default partition',
      'run intake-sync serve: it moves them to the partitions of their days',
    )
  if (days === 0) return ok('inbox', 'no event yet; serve creates the partitions')
  return ok('inbox', `${pending} event(s) pending; ${days} day(s) have a partition`)
}
