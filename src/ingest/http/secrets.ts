/**
 * The signature secrets of the teams: those of their configuration, and those that `webhooks create` stored sealed.
 *
 * Invariant: `refresh` returns what was stored when it was called, or later; a retired secret is forgotten within a minute
 * of use. All teams share one look-up at a time and five a second, however many requests need it; no log or error contains a
 * secret or a sealed box.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { isSigned } from '../../core/signature.ts'
import { removedAmong } from '../../load/teams.ts'
import type { BoundedQueries } from '../../warehouse/bounded-queries.ts'
import { keyOf, open, placeOf, type SealedSecret, secretsInUse } from '../../warehouse/webhook-secrets.ts'

export interface SecretSource {
  /** The secrets that are known now. */
  current(): readonly string[]
  /** The secrets that a look-up finds that begins after this call. Rejects when the warehouse does not answer. */
  refresh(): Promise<readonly string[]>
  /** True when the last look-up found the team removed, and its stored secrets with it. */
  isRemoved(): boolean
}

export interface SecretTeam {
  readonly name: string
  readonly teamId: number
  readonly configured: readonly string[]
}

export interface SecretSourceOptions<Team extends SecretTeam> {
  readonly bounded: BoundedQueries
  readonly teams: readonly Team[]
  /** INTAKE_ENCRYPTION_KEY; without it no stored secret can be opened. */
  readonly encryptionKey: string | null
  readonly clock: Clock
  readonly logger: Logger
}

/** At most one look-up in this time. */
const RATION_MICROSECONDS = 200_000
/** Age at which `current` starts a look-up. */
const STALE_MICROSECONDS = 60_000_000
/** With the ration, less than the two seconds within which an event is answered 503. */
const LOOK_MS = 1_400

/** Returns the source of each team, in the order of the teams. */
export function openSecretSources<Team extends SecretTeam>(
  options: SecretSourceOptions<Team>,
): readonly (Team & { readonly secrets: SecretSource })[] {
  const { bounded, teams, encryptionKey, clock, logger } = options
  const key = encryptionKey === null ? null : keyOf(encryptionKey)
  const teamIds = teams.map(({ teamId }) => teamId)
  const warned = new Set<string>()
  let known: ReadonlyMap<number, readonly string[]> = new Map()
  let removed: ReadonlySet<number> = new Set()
  let beganAt = Number.NEGATIVE_INFINITY
  let looking: Promise<void> | null = null
  /** The look-up that has not begun yet, which all callers share. */
  let coming: Promise<void> | null = null

  const warn = (team: SecretTeam, about: string, message: string) => {
    const place = `${team.teamId} ${about}`
    if (warned.has(place)) return
    warned.add(place)
    logger.warn({ team: team.name }, message)
  }
  const opened = (team: SecretTeam, { configId, box }: SealedSecret): readonly string[] => {
    if (key === null) {
      warn(team, '', 'stored signature secrets cannot be opened: INTAKE_ENCRYPTION_KEY is not set')
      return []
    }
    try {
      return [open(box, key, placeOf({ teamId: team.teamId, configId }))]
    } catch {
      warn(
        team,
        configId,
        'a stored signature secret cannot be opened: it was stored under another INTAKE_ENCRYPTION_KEY',
      )
      return []
    }
  }
  const look = async () => {
    beganAt = clock.now()
    const [boxes, gone] = await bounded.run(
      { purpose: 'ingest secrets', milliseconds: LOOK_MS },
      async (db) => [await secretsInUse(db, teamIds), await removedAmong(db, teamIds)] as const,
    )
    removed = new Set(gone)
    const before = known
    known = new Map(
      teams.map((team) => {
        const stored = boxes.filter(({ teamId }) => teamId === team.teamId)
        return [
          team.teamId,
          [...new Set([...team.configured, ...stored.flatMap((box) => opened(team, box))])],
        ]
      }),
    )
    for (const { teamId, name } of teams) {
      if (before.get(teamId)?.length === 0 && known.get(teamId)!.length > 0)
        logger.info({ team: name }, 'a signature secret has arrived: events are accepted')
    }
  }
  /** Fails with the look-up before it: the warehouse does not answer, and nobody waits for two limits. */
  const lookNext = async () => {
    try {
      await looking
      const pause = RATION_MICROSECONDS - (clock.now() - beganAt)
      if (pause > 0) await clock.sleep(pause / 1000)
    } finally {
      coming = null
    }
    looking = look().finally(() => {
      looking = null
    })
    await looking
  }
  const refresh = () => {
    coming ??= lookNext()
    return coming
  }
  return teams.map((team) => {
    const current = () => known.get(team.teamId) ?? team.configured
    const secrets: SecretSource = {
      current() {
        if (clock.now() - beganAt > STALE_MICROSECONDS) refresh().catch(() => {})
        return current()
      },
      refresh: () => refresh().then(current),
      isRemoved: () => removed.has(team.teamId),
    }
    return { ...team, secrets }
  })
}

/**
 * Checks that a body was signed with a secret of its team (specification, section 5 item 7).
 *
 * Invariant: secrets are compared in constant time only; a secret that was stored before the event arrived is accepted.
 */
export type Genuineness = 'genuine' | 'signature' | 'no_secret' | 'unavailable' | 'unknown_team'

const SIGNATURE = /^[0-9a-f]{64}$/i

/** A header that was sent twice arrives as one text with a comma, which is no signature. */
export function isSignature(header: unknown): header is string {
  return typeof header === 'string' && SIGNATURE.test(header)
}

/** Waits, where it has to look secrets up. */
export function judge(
  body: Buffer,
  signature: unknown,
  secrets: SecretSource,
): Genuineness | Promise<Genuineness> {
  if (!isSignature(signature)) return 'signature'
  const known = secrets.current()
  return isSigned(body, signature, known) ? 'genuine' : lookAgain(body, signature, secrets, known)
}

async function lookAgain(
  body: Buffer,
  signature: string,
  secrets: SecretSource,
  tried: readonly string[],
): Promise<Genuineness> {
  try {
    const fresh = await secrets.refresh()
    if (fresh.length === 0) return secrets.isRemoved() ? 'unknown_team' : 'no_secret'
    const others = fresh.filter((secret) => !tried.includes(secret))
    return isSigned(body, signature, others) ? 'genuine' : 'signature'
  } catch {
    return 'unavailable'
  }
}
