/** The plan of a seed: the size of the world, the processes, the amount of change and the faults. */
import type { Sizes } from '../../src/emulator/world/seeded/seed.ts'
import { type Choice, openChoice } from './choice.ts'
import { type SimulatedStream, STREAMS } from './history.ts'

/** Situations that random choices reach too rarely (`scripts.ts`). */
const SCRIPTS = ['nights', 'shifting pages', 'an overtaken event', 'a late event'] as const
export type ScriptName = (typeof SCRIPTS)[number] | 'a paused worker'

export interface Plan {
  /** Played among random choices; null if there are only these. */
  readonly script: ScriptName | null
  /** Teams in the warehouse, whose records and events have the same ids. */
  readonly teams: number
  /** How likely the sender of an event reads the record at its change and stamps the event up to `lagMicros` later. */
  readonly asynchronous: number
  readonly lagMicros: number
  /** How likely an event contains only a part of its record. */
  readonly partial: number
  /** Events of all teams that are kept back until so many can be sent, and are then sent one right after the other. */
  readonly together: number
  readonly streams: readonly SimulatedStream[]
  /** Streams with events. */
  readonly reported: readonly SimulatedStream[]
  readonly sizes: Sizes
  /** Rows per page of the service, and the requested number. */
  readonly servicePage: number
  readonly askedPage: number | undefined
  readonly concurrency: number
  /** Lead of the service over the scheduler's clock. */
  readonly skewMicros: number
  /** Most time from a change to the creation of its event. */
  readonly makingMicros: number
  readonly changes: number
  readonly backfills: number
  readonly kills: number
  /** Number of times at which days pass. */
  readonly leaps: number
  /** Processes that receive events, drain and refetch, concurrently. */
  readonly serves: number
  readonly statementFaults: number
  readonly networkFaults: number
  /** Probability that a session delays its transaction. */
  readonly dawdling: number
  readonly dropped: number
  readonly repeated: number
  /** An ordinary run without faults before the full scan. */
  readonly usualFirst: boolean
  /** Processes that execute the slices of planned runs. */
  readonly workers: number
  /** Runs that are planned for them, of some or all teams and streams. */
  readonly planned: number
  /** How many of these are canceled, and how often a worker is asked to end. */
  readonly cancels: number
  readonly closes: number
  /** Processes that are stopped, cut off or ended, most of them at a step of a slice, an event or a fetch. */
  readonly hindrances: number
  /** Leads of the clocks of processes. */
  readonly skews: readonly number[]
  /** The full scan at the end is a backfill, or a planned run. */
  readonly lastBy: 'backfill' | 'workers'
}

const LIKELY: Readonly<Record<SimulatedStream, number>> = {
  patients: 0.55,
  responses: 0.55,
  forms: 0.2,
  packets: 0.1,
  documents: 0.1,
  messages: 0.15,
  packet_responses: 0.25,
}

/** A seed with workers takes longer than another. */
export function hasWorkers(seed: number): boolean {
  return seed % 4 === 1
}

export function drawPlan(seed: number, choice: Choice): Plan {
  const plan = { ...drawFree(choice), ...drawMixture(openChoice(~seed)), ...WITHOUT_WORKERS }
  if (hasWorkers(seed)) {
    const own = openChoice(seed ^ 0x40e4)
    return { ...plan, ...drawWork(own), ...(own.chance(0.5) ? drawPaused(own) : {}) }
  }
  return choice.chance(0.35) ? { ...plan, ...drawScripted(choice) } : plan
}

type Work = Pick<Plan, 'workers' | 'planned' | 'cancels' | 'closes' | 'hindrances' | 'skews' | 'lastBy'>

const WITHOUT_WORKERS: Work = {
  ...{ workers: 0, planned: 0, cancels: 0, closes: 0, hindrances: 0, skews: [0], lastBy: 'backfill' },
}

const TEN_MINUTES = 600_000_000

function drawWork(choice: Choice): Work {
  return {
    workers: choice.one([1, 2, 2, 3]),
    planned: 2 + choice.below(4),
    cancels: choice.one([0, 0, 0, 1]),
    closes: choice.one([0, 0, 1, 2]),
    hindrances: choice.one([0, 2, 4, 6, 9]),
    skews: choice.one([[0], [0], [0, TEN_MINUTES], [0, -TEN_MINUTES], [-TEN_MINUTES, 0, TEN_MINUTES]]),
    lastBy: choice.one(['backfill', 'workers', 'workers']),
  }
}

type Mixture = Pick<Plan, 'teams' | 'asynchronous' | 'lagMicros' | 'partial' | 'together'>

function drawMixture(choice: Choice): Mixture {
  return {
    teams: choice.one([1, 2, 2, 3]),
    asynchronous: choice.one([0, 0.3, 0.6]),
    lagMicros: choice.one([50, 3_000, 300_000, 3_000_000]),
    partial: choice.one([0, 0, 0.1, 0.3]),
    together: choice.one([1, 1, 6, 15]),
  }
}

function drawFree(choice: Choice): Omit<Plan, keyof Mixture | keyof Work> {
  const drawn = drawStreams(choice)
  const hasPackets = drawn.includes('packet_responses')
  const serves = choice.one(hasPackets ? [1, 1, 2] : [0, 1, 1, 1, 1, 2, 2])
  // In some seeds, everything happens to the same few records.
  const few = choice.chance(0.4)
  const streams = few && !hasPackets ? [choice.one(['patients', 'responses'] as const)] : drawn
  return {
    script: null,
    streams,
    sizes: {
      patients: 1 + choice.below(few ? 2 : 6),
      forms: 1 + choice.below(hasPackets ? 3 : 2),
      packets: hasPackets ? 1 : choice.below(2),
      documents: choice.below(2),
      responses: choice.below(few ? 3 : 7),
    },
    servicePage: 2 + choice.below(4),
    askedPage: choice.chance(0.3) ? 1 + choice.below(4) : undefined,
    concurrency: 1 + choice.below(4),
    skewMicros: choice.one([0, 0, 400_000, -700_000, 3_300_000, -8_000_000]),
    makingMicros: choice.one([0, 0, 2_000, 300_000]),
    changes: 8 + choice.below(20),
    backfills: serves > 0 ? choice.below(3) : 1 + choice.below(2),
    kills: choice.one([0, 1, 1, 2, 3]),
    leaps: choice.one([0, 0, 0, 1, 2]),
    serves,
    statementFaults: choice.one([0, 0, 0.01, 0.03]),
    networkFaults: choice.one([0, 0.05, 0.2, 0.3]),
    dawdling: choice.one([0, 0, 0.2, 0.5]),
    dropped: choice.one([0, 0, 0.1, 0.5]),
    repeated: choice.one([0, 0.2, 0.5]),
    usualFirst: choice.chance(0.3),
    // Then members become known only by refetches.
    reported: hasPackets && choice.chance(0.3) ? ['packet_responses'] : streams,
  }
}

/** Little else happens than that workers are stopped, or cut off from Postgres, until others have taken their slices. */
function drawPaused(choice: Choice): Partial<Plan> {
  return {
    ...{
      script: 'a paused worker',
      workers: 2,
      planned: 0,
      cancels: 0,
      closes: 0,
      hindrances: 0,
      skews: [0],
    },
    ...{ changes: choice.below(8), backfills: choice.below(2), kills: 0, leaps: 0, dawdling: 0 },
    ...{ serves: choice.one([0, 0, 1]), statementFaults: 0 },
  }
}

/** The members of filled-in packets are read too. */
function drawStreams(choice: Choice): readonly SimulatedStream[] {
  const drawn = STREAMS.filter((stream) => choice.chance(LIKELY[stream]))
  if (drawn.length === 0) return [choice.one(['patients', 'responses'] as const)]
  const needsResponses = drawn.includes('packet_responses') && !drawn.includes('responses')
  return needsResponses ? [...drawn, 'responses'] : drawn
}

/** The needs of a script; little else happens. */
function drawScripted(choice: Choice): Partial<Plan> {
  const script = choice.one(SCRIPTS)
  const quiet = { script, changes: choice.below(5), backfills: 0, leaps: 0, kills: 0 }
  const responses = { streams: ['responses'] as const, reported: ['responses'] as const }
  const sizes = {
    patients: 2 + choice.below(4),
    forms: 1,
    packets: 0,
    documents: 0,
    responses: 3 + choice.below(5),
  }
  switch (script) {
    case 'nights': {
      const serves = choice.one([0, 0, 1])
      const dropped = choice.one([1, 1, 0.5])
      const pages = { servicePage: 2, askedPage: undefined }
      return { ...quiet, ...responses, ...pages, sizes, serves, dropped, usualFirst: true }
    }
    case 'shifting pages': {
      const streams = [choice.one(['patients', 'responses'] as const)]
      const many = { ...sizes, patients: 5 + choice.below(4), responses: 5 + choice.below(4) }
      return { ...quiet, streams, reported: streams, sizes: many, servicePage: 2, askedPage: undefined }
    }
    case 'an overtaken event': {
      // A repeated event, or another change, would repair it.
      const once = {
        changes: 0,
        dropped: 0,
        repeated: 0,
        statementFaults: 0,
        teams: 1,
        asynchronous: 0,
        partial: 0,
      }
      return { ...quiet, ...responses, ...once, sizes, serves: 2, makingMicros: 2_000 }
    }
    case 'a late event':
      return {
        ...quiet,
        ...responses,
        changes: 0,
        sizes,
        serves: 1 + choice.below(2),
        dropped: 0,
        partial: 0,
        asynchronous: 0,
      }
  }
}
