/** The options of the console, and what its pages and actions share. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import type { Clock } from '../core/clock.ts'
import type { LoginProxy, Role } from '../core/peers.ts'
import type { TeamSource } from '../extract/backfill-options.ts'
import type { Check } from '../operate/doctor/check.ts'
import type { Retention } from '../operate/serve/retention.ts'
import type { Readings } from './readings.ts'
import type { Sessions } from './sessions.ts'

/** A page that is not ready by then says so, and loads again by itself. */
export const PATIENCE_MS = 700

/** A setting, without its value if that is a secret. */
export interface Setting {
  readonly name: string
  readonly value: string
  readonly from: string
}

/** Something that the demo can break. */
export interface Breakage {
  readonly name: string
  readonly title: string
  /** By what it heals, in words. */
  readonly heals: string
  readonly run: () => Promise<Damage>
}

export interface Damage {
  /** The damage, in words. */
  readonly text: string
  /** Begins what heals it; resolves where that is nothing of ours. */
  readonly heal: () => Promise<void>
  readonly isHealed: () => Promise<boolean>
}

export interface ConsoleOptions {
  /** Connection string of a migrated warehouse. */
  readonly url: string
  readonly host: string
  /** 0 for any free port. */
  readonly port: number
  /** The address that browsers show; null if it is that of `host` and `port`. */
  readonly publicUrl: string | null
  /** Who logs people in before the console; null: nobody. */
  readonly proxy: LoginProxy | null
  /** Of links that are printed. */
  readonly linkRole: Role
  /** Whom the first link is for. */
  readonly login: string
  /** Teams with access to the service. */
  readonly teams: readonly TeamSource[]
  readonly inboxDays: number
  readonly retention: Retention
  /** Of the process that receives events; it need not run. */
  readonly metricsUrl: string
  readonly maxAgeHours: number
  readonly settings: readonly Setting[]
  /** The checks of `doctor`. */
  readonly checks: (signal: AbortSignal) => Promise<readonly Check[]>
  /** Prints a one-time link where only the person who runs the process sees it. */
  readonly onLink: (link: string, role: Role) => void
  /** Of one session. Default: 1,200. */
  readonly requestsPerMinute?: number
  /** Only for the demo. Default: none. */
  readonly breakages?: readonly Breakage[]
  readonly clock: Clock
  readonly random: () => number
  readonly logger: Logger
  readonly version: string
}

/** What pages and actions share. */
export interface Shared {
  readonly options: ConsoleOptions
  readonly readings: Readings
  readonly sessions: Sessions
  readonly cookie: string
  /** Aborted when the console closes. */
  readonly signal: AbortSignal
  link(login: string, role: Role): string
  show(request: FastifyRequest, reply: FastifyReply, page: Page): Promise<string>
}

export interface Page {
  readonly view: string
  readonly title: string
  readonly status?: number
  readonly data?: object
  /** Loaded again by itself while true: something on it is not there yet. */
  readonly waits?: boolean
  /**
   * The readings that the page shows, where nothing else on it changes. As long as they are the same, all readers of a
   * role get the text that was rendered for the first of them.
   */
  readonly from?: readonly unknown[]
}
