/**
 * A queue for the work of several teams: each has its own limit, and all share one.
 *
 * Invariant: a free place goes to the team with the fewest tasks running, round-robin among equals. So a team whose work
 * does not end keeps its own share and no more. Tasks that are added in one turn of the event loop are distributed
 * together, so the order of `add` calls does not favor a team.
 */
export interface FairQueue {
  /** Runs `work` when it is the team's turn. Resolves or rejects with it. */
  add<Result>(teamId: number, work: () => Promise<Result>): Promise<Result>
  /** Resolves when none of the team's work waits for its turn. */
  onNoneWaiting(teamId: number): Promise<void>
  /** Resolves when nothing waits and nothing is under way. */
  onIdle(): Promise<void>
}

export interface FairLimits {
  /** Under way at once, of one team. */
  readonly perTeam: number
  /** Of all teams. */
  readonly total: number
}

interface Line {
  underWay: number
  readonly waiting: (() => void)[]
}

export function openFairQueue({ perTeam, total }: FairLimits): FairQueue {
  /** Teams that have work, the one that was served last at the end. */
  const lines = new Map<number, Line>()
  const watchers = new Set<() => void>()
  let underWay = 0

  function admit(): void {
    while (underWay < total) {
      const next = fewestUnderWay()
      if (next === undefined) break
      const [teamId, line] = next
      lines.delete(teamId)
      lines.set(teamId, line)
      line.underWay += 1
      underWay += 1
      line.waiting.shift()!()
    }
    for (const watcher of watchers) watcher()
  }

  function fewestUnderWay(): readonly [number, Line] | undefined {
    let fewest: readonly [number, Line] | undefined
    for (const entry of lines) {
      const [, line] = entry
      if (line.waiting.length === 0 || line.underWay >= perTeam) continue
      if (fewest === undefined || line.underWay < fewest[1].underWay) fewest = entry
    }
    return fewest
  }

  function ended(teamId: number, line: Line): void {
    line.underWay -= 1
    underWay -= 1
    if (line.underWay === 0 && line.waiting.length === 0) lines.delete(teamId)
    admit()
  }

  async function add<Result>(teamId: number, work: () => Promise<Result>): Promise<Result> {
    const line = lines.get(teamId) ?? { underWay: 0, waiting: [] }
    lines.set(teamId, line)
    await new Promise<void>((begin) => {
      line.waiting.push(begin)
      queueMicrotask(admit)
    })
    try {
      return await work()
    } finally {
      ended(teamId, line)
    }
  }

  function until(isSo: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      const watcher = () => {
        if (!isSo()) return
        watchers.delete(watcher)
        resolve()
      }
      watchers.add(watcher)
      watcher()
    })
  }

  return {
    add,
    onNoneWaiting: (teamId) => until(() => (lines.get(teamId)?.waiting.length ?? 0) === 0),
    onIdle: () => until(() => lines.size === 0),
  }
}
