/**
 * One seed's world: the source, the warehouse, the shipped code between them, and the checker.
 *
 * Invariant: nothing happens here on its own; it is called, or offered to the scheduler.
 */
import { type Changes, openChanges } from './changes.ts'
import { type Checker, openChecker } from './checker.ts'
import { type Choice, openChoice } from './choice.ts'
import { type Follower, hasReader, openFollower } from './follower.ts'
import { type Hindrances, isStep, openHindrances } from './hindrances.ts'
import { type History, openHistory } from './history.ts'
import { openSliceJudge, type SliceJudge } from './judge-slices.ts'
import type { Lane, Team } from './lane.ts'
import type { Heard, NetworkOptions } from './network.ts'
import { drawPlan, type Plan } from './plan.ts'
import { openProcesses, type Processes } from './processes.ts'
import { openRuns, type Runs } from './runs.ts'
import { type Actor, openScheduler, type Scheduler } from './scheduler.ts'
import { openSender, type Sender } from './sender.ts'
import { openServes, type Serves } from './serves.ts'
import { openService, type Service } from './service.ts'
import type { SimulatedWarehouse } from './warehouse.ts'
import { openWorkers, type Workers } from './workers.ts'

/** Events that drains claimed. */
export interface Drained {
  /** The processes that claimed events, in order. */
  readonly takers: Actor[]
  /** Number of committed events. */
  events: number
  /** Batches with events of several teams. */
  mixed: number
}

/** One team: its source, its changes, and the checker of its rows. */
export interface TeamScene {
  readonly team: Team
  readonly service: Service
  readonly history: History
  readonly network: NetworkOptions
  readonly heard: Heard
  readonly changes: Changes
  readonly sender: Sender
  readonly checker: Checker
}

/** Planned changes and faults that are left. */
export type Left = Record<
  'changes' | 'backfills' | 'kills' | 'leaps' | 'planned' | 'cancels' | 'closes' | 'hindrances',
  number
>

export interface Scene {
  readonly plan: Plan
  readonly choice: Choice
  readonly scheduler: Scheduler
  readonly lane: Lane
  readonly teams: readonly TeamScene[]
  /** The team of the script. */
  readonly first: TeamScene
  readonly warehouse: SimulatedWarehouse
  readonly processes: Processes
  readonly serves: Serves
  readonly runs: Runs
  readonly workers: Workers
  readonly hindrances: Hindrances
  readonly slices: SliceJudge
  readonly drained: Drained
  /** Sees each statement that was executed for a process, before that hears of it. */
  spy: ((actor: Actor, text: string) => void) | null
  /** Reads the change feed, in every fourth seed; null in the others. */
  readonly follower: Follower | null
  /** True while delayed events are sent. */
  isPouring: boolean
  /** A process that is rarely scheduled. */
  dawdler: Actor | null
  readonly left: Left
  /** Faults occur only in chaos; nothing more is offered when it is over. */
  phase: 'chaos' | 'rest' | 'over'
  /** A state of chaos: in `calm` nothing fails and nothing changes; in `cut off` the service is unreachable. */
  weather: 'as planned' | 'calm' | 'cut off'
}

/** 2 March 2026, in the morning. */
const START = Date.UTC(2026, 2, 2, 8) * 1000

/** True while faults occur. */
export function isRough({ phase, weather }: Scene): boolean {
  return phase === 'chaos' && weather !== 'calm'
}

export async function openScene(seed: number, lane: Lane): Promise<Scene> {
  const choice = openChoice(seed)
  const plan = drawPlan(seed, choice)
  const scheduler = openScheduler(choice, START + choice.below(1_000_000))
  const drained: Drained = { takers: [], events: 0, mixed: 0 }
  const { changes, backfills, kills, leaps, planned, cancels, closes, hindrances: strikes } = plan
  const left: Left = { changes, backfills, kills, leaps, planned, cancels, closes, hindrances: strikes }

  const warehouse: SimulatedWarehouse = {
    scheduler,
    choice,
    backends: lane.backends,
    faultiness: () => (isRough(scene) ? plan.statementFaults : 0),
    dawdling: () => (scene.phase === 'chaos' ? plan.dawdling : 0),
    isDawdling: (actor) => actor === scene.dawdler,
    taken(actor, teamIds) {
      drained.takers.push(actor)
      if (new Set(teamIds).size > 1) drained.mixed += 1
    },
    drained(events) {
      drained.events += events
    },
    clients: new Set(),
    forsaken: 0,
    notify: (channel, payload) => {
      for (const client of warehouse.clients) client.hears(channel, payload)
    },
    terminate(processIds) {
      const error = Object.assign(new Error('terminating connection'), { code: '57P01' })
      for (const client of warehouse.clients)
        if (client.processId !== null && processIds.includes(client.processId))
          scheduler.call(null, `${client.actor.name} ${client.purpose} is terminated`, () =>
            client.endAtServer(error),
          )
    },
    passed(actor, label, text) {
      scene.spy?.(actor, text)
      if (left.hindrances === 0 || !isRough(scene) || !actor.alive || !hindrances.isFree(actor)) return
      if (!isStep(label, text) || !choice.chance(0.1)) return
      left.hindrances -= 1
      scheduler.note(`after ${label}:`)
      hindrances.strike(actor)
    },
    committed(actor) {
      if (!isRough(scene) || left.kills === 0 || !choice.chance(0.1)) return
      left.kills -= 1
      scheduler.note(`${actor.name} is ended, its commit unheard`)
      processes.kill(actor)
    },
  }
  const sources = []
  for (let place = 0; place < plan.teams; place++)
    sources.push(openSource(await lane.newTeam(), place, { seed, plan, choice, scheduler, at: () => scene }))
  const processes = openProcesses({
    ...{ teams: sources, warehouse, streams: plan.streams },
    ...{ concurrency: plan.concurrency, pageSize: plan.askedPage },
    note: (fault) => teams[0]!.checker.note(fault),
    skewMicros: () => (plan.skews.length === 1 ? plan.skews[0]! : choice.one(plan.skews)),
  })
  const hindrances = openHindrances({ scheduler, choice, warehouse, kill: processes.kill })
  const serves = openServes(processes)
  const receiver = () => {
    const quick = serves.ready.filter(({ actor }) => actor !== scene.dawdler && !actor.isStopped)
    return quick.length === 0 ? null : choice.one(quick)
  }
  const teams = sources.map((source) => {
    const { team, service, history, heard } = source
    const changes = openChanges(service.world, choice, plan.streams)
    const sender = openSender({
      ...{ teamId: team.teamId, scheduler, service, history, choice, streams: plan.reported, receiver },
      ...{ makingMicros: plan.makingMicros, lagMicros: plan.lagMicros },
      dropped: () => (scene.phase === 'chaos' ? plan.dropped : 0),
      repeated: () => (isRough(scene) ? plan.repeated : 0),
      asynchronous: () => (isRough(scene) ? plan.asynchronous : 0),
      partial: () => (isRough(scene) ? plan.partial : 0),
    })
    const checker = openChecker({ lane, team, history, service, plan, sender, heard })
    return { ...source, changes, sender, checker }
  })
  const noted = { processes, scheduler, note: (fault: string) => teams[0]!.checker.note(fault) }
  const [runs, workers] = [openRuns(noted), openWorkers({ ...noted, choice })]
  const teamIds = sources.map(({ team }) => team.teamId)
  const followed = { seed, teamIds, streams: plan.streams, lane, scheduler, processes }
  const follower = hasReader(seed) ? await openFollower(followed) : null
  const scene: Scene = {
    ...{ plan, choice, scheduler, lane, teams, warehouse, processes, serves, runs, drained, follower, left },
    ...{ workers, hindrances, slices: openSliceJudge(lane, teamIds) },
    first: teams[0]!,
    dawdler: null,
    spy: null,
    isPouring: false,
    phase: 'chaos',
    weather: 'as planned',
  }
  return scene
}

interface Circumstances {
  readonly seed: number
  readonly plan: Plan
  readonly choice: Choice
  readonly scheduler: Scheduler
  readonly at: () => Scene
}

/** The source of a team, and the network to it. All teams of a seed have the same ids, with different contents. */
function openSource(team: Team, place: number, { seed, plan, choice, scheduler, at }: Circumstances) {
  const service = openService(scheduler, {
    ...{ seed, place, sizes: plan.sizes },
    ...{ pageSize: plan.servicePage, skewMicros: plan.skewMicros },
  })
  const history = openHistory(service, plan.streams)
  const heard: Heard = { answers: 0, gone: new Set(), failed: new Set() }
  const isCutOff = () => at().phase === 'chaos' && at().weather === 'cut off'
  const faultiness = () => (isCutOff() ? 1 : isRough(at()) ? plan.networkFaults : 0)
  const name = plan.teams === 1 ? '' : `team ${place + 1} `
  const network = { name, scheduler, service, history, choice, isCutOff, heard, faultiness }
  return { team, service, history, heard, network }
}
