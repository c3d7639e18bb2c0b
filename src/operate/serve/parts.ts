/** The parts of `serve` that events pass: receiving them, and bringing them into the tables. */
import type { TeamSource } from '../../extract/backfill-options.ts'
import { openRefetcher } from '../../extract/conflicts/refetcher.ts'
import { type Drain, openDrain } from '../../ingest/drain/drain.ts'
import { openSecretSource } from '../../ingest/http/secrets.ts'
import { type Ingester, openIngester } from '../../ingest/http/server.ts'
import type { IngestWatch } from '../../ingest/watch.ts'
import { openReceived } from '../health/received.ts'
import type { Metrics } from '../metrics/registry.ts'
import { cannotListen } from './admin.ts'
import type { Address, ServeOptions, Use } from './options.ts'

interface Shared {
  readonly options: ServeOptions
  /** The teams' numbers in the warehouse, by name. */
  readonly numbers: ReadonlyMap<string, number>
  readonly metrics: Metrics
}

export interface Draining extends Shared {
  readonly teams: readonly (TeamSource & { readonly teamId: number })[]
}

/** The drain, and what it asks the service for where that can be asked. */
export function openDraining({ options, numbers, teams, metrics }: Draining, use: Use): Drain {
  const { url, clock, logger, random } = options
  const shared = { url, clock, logger, watch: metrics.drain }
  const version = options.version === undefined ? {} : { version: options.version }
  const refetcher = teams.length === 0 ? null : use(openRefetcher({ ...shared, ...version, teams, random }))
  const draining = [...numbers].map(([name, teamId]) => {
    const team = teams.find((each) => each.name === name)
    return { name, teamId, ...(team === undefined ? {} : { apiVersion: team.apiVersion }) }
  })
  return use(openDrain({ ...shared, teams: draining, onAsked: () => refetcher?.wake() }))
}

/** The ingester, and the counts by which silence is noticed. */
export async function openReceiving(
  { options, numbers, metrics, onStored }: Shared & { readonly onStored: () => void },
  address: Address,
  use: Use,
): Promise<Ingester> {
  const { url, clock, logger, encryptionKey } = options
  const received = use(openReceived({ url, logger }))
  const watch: IngestWatch = {
    ...metrics.ingest,
    stored(team, duplicate) {
      metrics.ingest.stored(team, duplicate)
      received.note(team, duplicate)
    },
  }
  const teams = options.ingestTeams.map(({ name, webhookSecrets }) => {
    const team = { name, teamId: numbers.get(name)! }
    const secrets = { url, team, configured: webhookSecrets, encryptionKey, clock, logger }
    return { ...team, secrets: openSecretSource(secrets) }
  })
  try {
    return use(await openIngester({ url, ...address, teams, clock, logger, watch, onStored }))
  } catch (error) {
    throw cannotListen(error, 'INTAKE_WEBHOOK_HOST', 'INTAKE_WEBHOOK_PORT', address.port)
  }
}
