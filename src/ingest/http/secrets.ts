/**
 * The signature secrets of a team: those of its configuration, and those that `webhooks create` stored sealed.
 *
 * Invariant: a stored secret is known at the next `refresh`, and a retired one is forgotten within a minute of use; the
 * number of look-ups is limited, however many requests ask; no log or error contains a secret or a sealed box.
 */
import type { Logger } from 'pino'
import type { Clock } from '../../core/clock.ts'
import { keyOf, open } from '../../core/secret-box.ts'
import { isSigned } from '../../core/signature.ts'
import { removedAmong } from '../../load/teams.ts'
import type { Glances } from '../../warehouse/glance.ts'
import { placeOf, secretsInUse } from '../../warehouse/webhook-secrets.ts'

export interface SecretSource {
  /** The secrets that are known now. */
  current(): readonly string[]
  /** The secrets that are stored now, or were a moment ago. Rejects when the warehouse does not answer. */
  refresh(): Promise<readonly string[]>
  /** True when the last look-up found the team removed, and its stored secrets with it. */
  isRemoved(): boolean
}

export interface SecretSourceOptions {
  readonly glances: Glances
  readonly team: { readonly name: string; readonly teamId: number }
  readonly configured: readonly string[]
  /** INTAKE_ENCRYPTION_KEY; without it no stored secret can be opened. */
  readonly encryptionKey: string | null
  readonly clock: Clock
  readonly logger: Logger
}

/** At most one look-up in this time. */
const RATION_MICROSECONDS = 200_000
/** Age at which `current` starts a look-up. */
const STALE_MICROSECONDS = 60_000_000
const LOOK_MS = 1_400

export function openSecretSource(options: SecretSourceOptions): SecretSource {
  const { glances, team, configured, encryptionKey, clock, logger } = options
  const key = encryptionKey === null ? null : keyOf(encryptionKey)
  const warned = new Set<string>()
  let known = configured
  let removed = false
  let lookedAt = Number.NEGATIVE_INFINITY
  let looking: Promise<readonly string[]> | null = null
  /** The result of the last look-up. */
  let last: Promise<readonly string[]> = Promise.resolve(configured)

  const warn = (about: string, message: string) => {
    if (warned.has(about)) return
    warned.add(about)
    logger.warn({ team: team.name }, message)
  }
  const look = async (): Promise<readonly string[]> => {
    const boxes = await glances.look({ purpose: 'ingest secrets', milliseconds: LOOK_MS }, async (db) => {
      removed = (await removedAmong(db, [team.teamId])).length > 0
      return await secretsInUse(db, team.teamId)
    })
    if (key === null) {
      if (boxes.size > 0) {
        warn('', 'stored signature secrets cannot be opened: INTAKE_ENCRYPTION_KEY is not set')
      }
      return configured
    }
    const opened: string[] = []
    for (const [configId, box] of boxes) {
      try {
        opened.push(open(box, key, placeOf({ teamId: team.teamId, configId })))
      } catch {
        warn(
          configId,
          'a stored signature secret cannot be opened: it was stored under another INTAKE_ENCRYPTION_KEY',
        )
      }
    }
    return [...new Set([...configured, ...opened])]
  }
  const refresh = (): Promise<readonly string[]> => {
    if (looking !== null) return looking
    if (clock.now() - lookedAt < RATION_MICROSECONDS) return last
    lookedAt = clock.now()
    looking = look()
      .then((found) => {
        known = found
        return found
      })
      .finally(() => {
        looking = null
      })
    last = looking
    return looking
  }
  return {
    current() {
      if (clock.now() - lookedAt > STALE_MICROSECONDS) refresh().catch(() => {})
      return known
    },
    refresh,
    isRemoved: () => removed,
  }
}

/**
 * Checks that a body was signed with a secret of its team (specification, section 5 item 7).
 *
 * Invariant: secrets are compared in constant time only; a secret that was stored a moment ago is accepted.
 */
export type Genuineness = 'genuine' | 'signature' | 'no_secret' | 'unavailable' | 'unknown_team'

const SIGNATURE = /^[0-9a-f]{64}$/i

/**
 * `signature`: the header as received. A header that was sent twice arrives as one text with a comma, which is no
 * signature.
 */
export function judge(
  body: Buffer,
  signature: unknown,
  secrets: SecretSource,
): Genuineness | Promise<Genuineness> {
  if (typeof signature !== 'string') return 'signature'
  if (isSigned(body, signature, secrets.current())) return 'genuine'
  return SIGNATURE.test(signature) ? lookAgain(body, signature, secrets) : 'signature'
}

async function lookAgain(body: Buffer, signature: string, secrets: SecretSource): Promise<Genuineness> {
  try {
    const fresh = await secrets.refresh()
    if (fresh.length === 0) return secrets.isRemoved() ? 'unknown_team' : 'no_secret'
    return isSigned(body, signature, fresh) ? 'genuine' : 'signature'
  } catch {
    return 'unavailable'
  }
}
