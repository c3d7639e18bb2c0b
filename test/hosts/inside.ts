/** Runs inside the namespace that run.ts makes; its argument is a JSON document. Exit 1 if something is wrong. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { openBalancer } from './balancer.ts'
import { environmentOf, openHost, originOf, probeOf } from './hosts.ts'
import { MOMENTS } from './moments.ts'
import { HOSTS, makeHosts } from './namespaces.ts'
import { type Played, play, prepare, type Scene, TROUBLES } from './play.ts'
import { openPostgres } from './postgres.ts'
import { openSource } from './source.ts'

export interface Orders {
  /** Removed by the caller. */
  readonly folder: string
  readonly seed: number
  readonly seconds: number
  readonly isTimed: boolean
  /** `moment/trouble`, in this order. */
  readonly only: readonly string[]
}

const orders = JSON.parse(process.argv[2]!) as Orders
const say = (line: string) => void process.stdout.write(`${line}\n`)

async function open(): Promise<Scene> {
  const { folder, seed, seconds, isTimed } = orders
  makeHosts()
  const postgres = await openPostgres(folder)
  const balancer = await openBalancer(HOSTS.map((name) => ({ origin: originOf(name), probe: probeOf(name) })))
  const source = await openSource(balancer.url, seed)
  const config = join(folder, 'teams.json')
  writeFileSync(config, JSON.stringify({ teams: source.teams.map(({ config }) => config) }))
  const hosts = HOSTS.map((name) => openHost(name, folder, environmentOf(name, postgres.url, config)))
  return { postgres, source, hosts, seconds, isTimed }
}

const figure = (seconds: number | null) => (seconds === null ? '–' : `${seconds.toFixed(1)} s`)

const scene = await open()
await prepare(scene)
let wrong = 0
for (const name of orders.only) {
  const moment = MOMENTS.find((each) => name.startsWith(`${each}/`))!
  const trouble = TROUBLES.find((each) => name.endsWith(`/${each}`))!
  const begun = performance.now()
  const { host, takeoverSeconds, pendingSeconds, faults }: Played = await play(scene, moment, trouble)
  const seconds = ((performance.now() - begun) / 1_000).toFixed(0)
  say(
    `${name}: ${host}, slices taken over ${figure(takeoverSeconds)}, pending events settled ${figure(pendingSeconds)}, ${seconds} s in all, ${faults.length === 0 ? 'right' : 'WRONG'}`,
  )
  for (const fault of faults) say(`  WRONG: ${fault}`)
  wrong += faults.length
}
const events = scene.source.acknowledged().length
say(`${orders.only.length} played, ${events} events acknowledged, ${wrong} faults`)
// Everything else ends with this namespace.
process.exit(wrong === 0 ? 0 : 1)
