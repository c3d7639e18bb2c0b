/** The workers, and the runs that are planned for them. */
import type { Worker } from '../../src/extract/work.ts'
import type { Choice } from './choice.ts'
import type { Kind, Parts, Processes } from './processes.ts'
import type { Actor, Scheduler } from './scheduler.ts'

export interface Workers {
  /** Number of live processes. */
  readonly started: number
  /** Numbers of the planned runs whose planner heard of it. */
  readonly planned: readonly string[]
  /** Processes that plan or cancel. */
  readonly busy: number
  start(): void
  /** Ends one as a signal does: it gives back what it has not finished. */
  close(): void
  plan(kind: Kind, parts: Parts): void
  cancel(): void
}

/** A run of some of the teams and streams. */
export function someParts(choice: Choice): Parts {
  const [team, stream] = [choice.below(1_000), choice.below(1_000)]
  const [oneTeam, oneStream] = [choice.chance(0.3), choice.chance(0.4)]
  return {
    team: (place, teams) => !oneTeam || place === team % teams,
    stream: (place, streams) => !oneStream || place === stream % streams,
  }
}

export const ALL_PARTS: Parts = { team: () => true, stream: () => true }

export function openWorkers(options: {
  readonly processes: Processes
  readonly scheduler: Scheduler
  readonly choice: Choice
  readonly note: (fault: string) => void
}): Workers {
  const { processes, scheduler, choice, note } = options
  const workers = new Map<Actor, Worker>()
  const planned: string[] = []
  const others = new Set<Actor>()

  function begin(name: string, work: (actor: Actor) => Promise<void>): void {
    const actor = processes.start(name)
    others.add(actor)
    void work(actor)
      .catch((error) => {
        scheduler.note(`${actor.name} failed: ${error.code ?? error.message}`)
        if (error.code === 'internal') note(`${name} failed by a fault of its own: ${error.message}`)
      })
      .finally(() => others.delete(actor))
  }

  const living = () => [...workers].filter(([actor]) => actor.alive)
  return {
    get started() {
      return living().length
    },
    planned,
    get busy() {
      return [...others].filter(({ alive }) => alive).length
    },
    start() {
      const { actor, worker } = processes.work(1 + choice.below(4))
      workers.set(actor, worker)
    },
    close() {
      const [one] = living().length === 0 ? [] : [choice.one(living())]
      if (one === undefined) return
      const [actor, worker] = one
      scheduler.note(`${actor.name} is asked to end`)
      void worker.close().then(() => {
        scheduler.note(`${actor.name} has ended`)
        processes.kill(actor)
      })
    },
    plan: (kind, parts) =>
      begin('plan', async (actor) => {
        const { runId } = await processes.plan(actor, kind, parts)
        planned.push(runId)
        scheduler.note(`${actor.name} planned a run`)
      }),
    cancel() {
      const runId = planned.at(-1)
      if (runId !== undefined) begin('cancel', (actor) => processes.cancel(actor, Number(runId)))
    },
  }
}
