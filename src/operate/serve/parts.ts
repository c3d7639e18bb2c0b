/** Opens the parts of `serve` that process events: the ingester and the drain. */
import type { TeamSource } from '../../extract/backfill-options.ts'
import { openRefetcher } from '../../extract/conflicts/refetcher.ts'
import { type Drain, openDrain } from '../../ingest/drain/drain.ts'
import { openSecretSource } from '../../ingest/http/secrets.ts'
import { type Ingester, openIngester } from '../../ingest/http/server.ts'
import type { IngestWatch } from '../../ingest/watch.ts'
import type { Glances } from '../../warehouse/glance.ts'
import { openReceived } from '../health/received.ts'
import type { Metrics } from '../health/registry.ts'
import { listenError } from './admin.ts'
import type { Address, ServeOptions, Use } from './options.ts'

interface Shared {
  readonly options: ServeOptions
  /** Team ids by name. */
  readonly teamIds: ReadonlyMap<string, number>
  readonly metrics: Metrics
}

export interface Draining extends Shared {
  readonly teams: readonly (TeamSource & { readonly teamId: number })[]
}

/** Opens the drain, and a refetcher if any team has credentials for the service. */
export function openDraining({ options, teamIds, teams, metrics }: Draining, use: Use): Drain {
  const { url, clock, logger, random } = options
  const shared = { url, clock, logger, watch: metrics.drain }
  const version = options.version === undefined ? {} : { version: options.version }
  const refetcher = teams.length === 0 ? null : use(openRefetcher({ ...shared, ...version, teams, random }))
  const draining = [...teamIds].map(([name, teamId]) => {
    const team = teams.find((each) => each.name === name)
    return { name, teamId, ...(team === undefined ? {} : { apiVersion: team.apiVersion }) }
  })
  return use(openDrain({ ...shared, teams: draining, onAsked: () => refetcher?.wake() }))
}

/** Opens the ingester, and the counts from which silence is judged. */
export async function openReceiving(
  {
    options,
    teamIds,
    metrics,
    glances,
    onStored,
  }: Shared & { readonly glances: Glances; readonly onStored: () => void },
  address: Address,
  use: Use,
): Promise<Ingester> {
  const { url, clock, logger, encryptionKey } = options
  const received = use(openReceived({ glances, logger }))
  const watch: IngestWatch = {
    ...metrics.ingest,
    stored(team, duplicate) {
      metrics.ingest.stored(team, duplicate)
      received.note(team, duplicate)
    },
  }
  const teams = options.ingestTeams.map(({ name, webhookSecrets }) => {
    const team = { name, teamId: teamIds.get(name)! }
    const secrets = { glances, team, configured: webhookSecrets, encryptionKey, clock, logger }
    return { ...team, secrets: openSecretSource(secrets) }
  })
  try {
    return use(await openIngester({ url, ...address, teams, clock, logger, watch, onStored }))
  } catch (error) {
    throw listenError(error, 'INTAKE_WEBHOOK_HOST', 'INTAKE_WEBHOOK_PORT', address.port)
  }
}
