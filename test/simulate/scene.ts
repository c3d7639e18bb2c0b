/**
 * One seed's world: the source, the warehouse, the shipped code between them, and who watches.
 *
 * Invariant: nothing happens here by itself; whoever plays the seed calls for it, or offers it to the scheduler.
 */
import { type Changes, openChanges } from './changes.ts'
import { type Checker, openChecker } from './checker.ts'
import { type Choice, openChoice } from './choice.ts'
import { openHistory } from './history.ts'
import type { Lane, Team } from './lane.ts'
import type { Heard } from './network.ts'
import { drawPlan, type Plan } from './plan.ts'
import { openProcesses, type Processes } from './processes.ts'
import { openRuns, type Runs } from './runs.ts'
import { type Actor, openScheduler, type Scheduler } from './scheduler.ts'
import { openSender, type Sender } from './sender.ts'
import { openServes, type Serves } from './serves.ts'
import { openService, type Service } from './service.ts'
import type { SimulatedWarehouse } from './warehouse.ts'

/** What was taken off the inbox. */
export interface Drained {
  /** Who took something, one after the other. */
  readonly takers: Actor[]
  /** Events that were committed. */
  events: number
}

/** How much of what befalls a seed is still to come. */
export type Left = Record<'changes' | 'backfills' | 'kills' | 'leaps', number>

export interface Scene {
  readonly plan: Plan
  readonly choice: Choice
  readonly scheduler: Scheduler
  readonly service: Service
  readonly lane: Lane
  readonly team: Team
  readonly warehouse: SimulatedWarehouse
  readonly processes: Processes
  readonly serves: Serves
  readonly runs: Runs
  readonly changes: Changes
  readonly sender: Sender
  readonly checker: Checker
  readonly heard: Heard
  readonly drained: Drained
  /** A process that is seldom given its turn. */
  dawdler: Actor | null
  readonly left: Left
  /** Faults are met in chaos only; nothing more is offered when it is over. */
  phase: 'chaos' | 'rest' | 'over'
  /** Of chaos: in calm nothing goes wrong and nothing changes; `cut off` are all from the service. */
  weather: 'as planned' | 'calm' | 'cut off'
}

/** 2 March 2026, in the morning. */
const START = Date.UTC(2026, 2, 2, 8) * 1000

/** True while faults are met. */
export function isRough({ phase, weather }: Scene): boolean {
  return phase === 'chaos' && weather !== 'calm'
}

export async function openScene(seed: number, lane: Lane): Promise<Scene> {
  const choice = openChoice(seed)
  const plan = drawPlan(choice)
  const scheduler = openScheduler(choice, START + choice.below(1_000_000))
  const team = await lane.newTeam()
  const service = openService(scheduler, {
    seed,
    sizes: plan.sizes,
    pageSize: plan.servicePage,
    skewMicros: plan.skewMicros,
  })
  const history = openHistory(service, plan.streams)
  const during = (probability: number) => () => (isRough(scene) ? probability : 0)
  const isCutOff = () => scene.phase === 'chaos' && scene.weather === 'cut off'
  const heard: Heard = { answers: 0, gone: new Set() }
  const drained: Drained = { takers: [], events: 0 }
  const left = { changes: plan.changes, backfills: plan.backfills, kills: plan.kills, leaps: plan.leaps }

  const warehouse: SimulatedWarehouse = {
    scheduler,
    choice,
    backends: lane.backends,
    faultiness: during(plan.statementFaults),
    dawdling: () => (scene.phase === 'chaos' ? plan.dawdling : 0),
    isDawdling: (actor) => actor === scene.dawdler,
    drained: (actor, what, events) => {
      if (what === 'taken') drained.takers.push(actor)
      else drained.events += events
    },
    clients: new Set(),
    forsaken: 0,
    notify: () => {
      for (const client of warehouse.clients) {
        if (client.listening)
          scheduler.call(client.actor, 'a notice arrives', async () => void client.emit('notification', {}))
      }
    },
    committed(actor) {
      if (!isRough(scene) || left.kills === 0 || !choice.chance(0.1)) return
      left.kills -= 1
      scheduler.note(`${actor.name} is ended, its commit unheard`)
      processes.kill(actor)
    },
  }
  const network = {
    ...{ scheduler, service, history, choice, isCutOff, heard },
    faultiness: () => (isCutOff() ? 1 : isRough(scene) ? plan.networkFaults : 0),
  }
  const processes = openProcesses({
    ...{ team, network, warehouse },
    ...{ streams: plan.streams, concurrency: plan.concurrency, pageSize: plan.askedPage },
  })
  const changes = openChanges(service.world, choice, plan.streams)
  const serves = openServes(processes)
  const sender = openSender({
    ...{ teamId: team.teamId, scheduler, service, history, choice, streams: plan.told },
    makingMicros: plan.makingMicros,
    dropped: () => (scene.phase === 'chaos' ? plan.dropped : 0),
    repeated: during(plan.repeated),
    receiver: () => {
      const quick = serves.ready.filter(({ actor }) => actor !== scene.dawdler)
      return quick.length === 0 ? null : choice.one(quick)
    },
  })
  const checker = openChecker({ lane, team, history, service, plan, sender, heard })
  const runs = openRuns({ processes, scheduler, checker })
  const scene: Scene = {
    ...{
      plan,
      choice,
      scheduler,
      service,
      lane,
      team,
      warehouse,
      processes,
      serves,
      runs,
      changes,
      sender,
      checker,
    },
    ...{ heard, drained, left },
    dawdler: null,
    phase: 'chaos',
    weather: 'as planned',
  }
  return scene
}
