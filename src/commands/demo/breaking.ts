/**
 * The faults that the console of `demo --stay` can cause, and what repairs each.
 *
 * Invariant: touches the demo's own service and warehouse only. `isHealed` compares rows with the service.
 */
import type { Logger } from 'pino'
import { readConfig } from '../../config/config.ts'
import type { Breakage, Damage } from '../../console/shared.ts'
import { systemClock } from '../../core/clock.ts'
import { IntakeError } from '../../core/errors.ts'
import type { Emulator } from '../../emulator/server.ts'
import type { BackfillSummary } from '../../extract/backfill.ts'
import { openSession } from '../../warehouse/connect.ts'
import type { Context } from '../context.ts'
import type { OpenedConsole } from '../run/console.ts'
import { DEMO_FAULTS } from './service.ts'
import type { DemoPlaces } from './text.ts'

export interface DemoConsoleOptions {
  readonly context: Context
  /** Of the warehouse. */
  readonly url: string
  readonly service: Emulator
  readonly places: DemoPlaces
  readonly logger: Logger
  /** Runs a backfill of everything. */
  readonly load: () => Promise<BackfillSummary>
}

/** Opens the console of the demo, in which it can be broken. */
export async function openDemoConsole(options: DemoConsoleOptions): Promise<OpenedConsole> {
  const { context, url, places, logger } = options
  const { openConfiguredConsole } = await import('../run/console.ts')
  const { hostname, port } = new URL(places.admin)
  const env = {
    ...{ ...places.variables, INTAKE_DATA_DIR: places.dataDir, DATABASE_URL: url },
    ...{ INTAKE_ADMIN_HOST: hostname, INTAKE_ADMIN_PORT: port, INTAKE_CRON: 'off' },
  }
  const breakages = breakagesOf(options)
  const place = { url, logger, port: 0, admin: places.admin, breakages }
  return await openConfiguredConsole({ ...context, env }, readConfig(env), place)
}

/** The damage is visible for this long before something heals it. */
const VISIBLE_MS = 3_000
/** No event arrives earlier, so that the page shows what they change. */
const DELAY_MS = 1_500
const CHANGES = 20

export function breakagesOf({ url, service, load }: DemoConsoleOptions): readonly Breakage[] {
  const { control } = service
  let round = 0

  /** Some patients, others each time. */
  const chosen = (count: number): readonly string[] => {
    round += 1
    const { patients } = control.world()
    return Array.from({ length: count }, (_, at) => patients.slice((at * 37 + round * 11) % 2_500, 1)[0]!.id)
  }
  const storedCities = async (ids: readonly string[]): Promise<ReadonlyMap<string, string | null>> => {
    await using session = await openSession({ url, purpose: 'demo' })
    const text = 'select id, city from intake.patients where id = any($1)'
    const { rows } = await session.client.query<{ id: string; city: string | null }>(text, [ids])
    return new Map(rows.map(({ id, city }) => [id, city]))
  }
  const showAll = async (ids: readonly string[], city: string): Promise<boolean> => {
    const stored = await storedCities(ids)
    return ids.every((id) => stored.get(id) === city)
  }
  const withFaults = (faults: string): Disposable => {
    control.setFaults(`${DEMO_FAULTS},${faults}`)
    return { [Symbol.dispose]: () => control.setFaults(DEMO_FAULTS) }
  }

  async function dropWebhooks(): Promise<Damage> {
    const ids = chosen(CHANGES)
    const city = `Dropped ${round}`
    {
      using _faults = withFaults('webhook-drop=1')
      for (const id of ids) control.updatePatient(id, { city })
    }
    const heal = async () => {
      await systemClock.sleep(VISIBLE_MS)
      await load()
    }
    return {
      text: `${CHANGES} patients changed, and no event said so`,
      heal,
      isHealed: () => showAll(ids, city),
    }
  }

  async function storm(): Promise<Damage> {
    let ended: BackfillSummary | null = null
    const heal = async () => {
      using _faults = withFaults('throttle=0.1:1')
      ended = await load()
    }
    const isHealed = async () => {
      const reports = ended?.teams.flatMap(({ streams }) => streams.map(({ report }) => report)) ?? []
      return ended?.status === 'succeeded' && reports.some(({ throttled }) => throttled > 0)
    }
    return { text: 'a backfill runs, and one of ten requests is answered with 429', heal, isHealed }
  }

  async function reorder(): Promise<Damage> {
    const ids = chosen(1)
    using _faults = withFaults(`webhook-reorder=0.5,webhook-duplicate=0.3,webhook-delay=1:${DELAY_MS}`)
    for (let time = 1; time <= CHANGES; time++)
      control.updatePatient(ids[0]!, { city: `Reordered ${round}.${time}` })
    const last = `Reordered ${round}.${CHANGES}`
    const text = `one patient changed ${CHANGES} times; the events arrive twice and in the wrong order`
    return { text, heal: async () => {}, isHealed: () => showAll(ids, last) }
  }

  async function killPostgres(): Promise<Damage> {
    await using victim = await openSession({ url, purpose: 'demo victim' })
    const { rows } = await victim.client.query<{ pid: number }>('select pg_backend_pid() as pid')
    try {
      process.kill(rows[0]!.pid, 'SIGKILL')
    } catch {
      const message = 'the processes of Postgres belong to another user'
      throw new IntakeError(message, { code: 'embedded_unavailable', verdict: 'stop' })
    }
    const ids = chosen(CHANGES)
    const city = `Killed ${round}`
    for (const id of ids) control.updatePatient(id, { city })
    const text = `Postgres lost a process and restarts; meanwhile ${CHANGES} patients change`
    return { text, heal: async () => {}, isHealed: () => showAll(ids, city) }
  }

  async function corruptRow(): Promise<Damage> {
    const [id] = chosen(1)
    const { city } = control.world().patients.get(id!)!
    await using session = await openSession({ url, purpose: 'demo' })
    await session.client.query(`update intake.patients set city = 'Nowhere' where id = $1`, [id])
    const text = 'a row says something that the service never said'
    return { text, heal: async () => {}, isHealed: async () => (await storedCities([id!])).get(id!) === city }
  }

  return [
    { name: 'webhooks', title: 'Drop webhooks', heals: 'the next backfill', run: dropWebhooks },
    { name: 'storm', title: 'Start a storm of 429', heals: 'waiting, and a lower rate', run: storm },
    {
      name: 'order',
      title: 'Reorder events',
      heals: 'the order of versions, and a fetch by id',
      run: reorder,
    },
    {
      name: 'postgres',
      title: 'Kill Postgres',
      heals: 'retries of the service, and reconnecting',
      run: killPostgres,
    },
    {
      name: 'row',
      title: 'Corrupt a row',
      heals: 'a verification with repair: start it on Verify',
      run: corruptRow,
    },
  ]
}
