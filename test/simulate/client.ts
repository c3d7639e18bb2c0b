/**
 * A client of Postgres with the interface of `pg`, whose statements wait for the scheduler: the shipped code uses it as
 * `pg.Client` in a simulation.
 *
 * Invariant: its statements are executed one after the other, in the given order, each completely or not at all; their
 * results are those of Postgres, unless the connection was lost before or after the statement.
 */
import { EventEmitter } from 'node:events'
import { Writable } from 'node:stream'
import type pg from 'pg'
import type { Backend } from './backends.ts'
import { limitWait } from './lock-limit.ts'
import type { Actor, Pending } from './scheduler.ts'
import { msOf, type Query, send, settled, shortOf, sortRows, textOf } from './statements.ts'
import { asActor } from './timers.ts'
import { DAWDLING, type SimulatedWarehouse } from './warehouse.ts'

const NOTHING = { command: '', rowCount: 0, rows: [] }
/** After so long the server ends the sessions of a process that is cut off; and a process gives up connecting a second earlier. */
export const UNSEEN_MS = 11_000
const CONNECT_MS = 10_000

interface Current {
  readonly pending: Pending
  readonly fail: (error: Error) => void
  readonly text: string
  readonly execute: ((client: pg.Client) => Promise<unknown>) | null
}

export class SimulatedClient extends EventEmitter {
  readonly actor: Actor
  readonly purpose: string
  /** Of the worker, at the end of the names of its sessions; null for others. */
  readonly worker: string | null
  readonly connection: { stream: { destroy: () => void } }
  readonly channels = new Set<string>()
  /** For `pg.Pool`. */
  _ending = false
  readonly #at: SimulatedWarehouse
  readonly #settings: string
  readonly #lockMs: number
  /** How long its transaction may wait for its next statement; 0 for ever. */
  readonly #idleMs: number
  #stopIdling = () => {}
  /** Why the server has ended the session, while the client does not know. */
  #ended: Error | null = null
  #running: Promise<unknown> | null = null
  #isMissed = false
  #isConnected = false
  /** Sent when the transaction commits. */
  #notices: (() => void)[] = []
  #backend: Backend | null = null
  #lost = false
  #tail: Promise<unknown> = Promise.resolve()
  /** Number of claimed events. */
  #taken = 0
  /** In the current transaction. */
  #dawdles = false
  #current: Current | null = null

  constructor(at: SimulatedWarehouse, actor: Actor, config: pg.ClientConfig) {
    super()
    this.#at = at
    this.actor = actor
    const [, purpose = '', worker] = /^(?:intake-sync )?(.*?)(?: worker (.{8}))?$/.exec(
      config.application_name ?? '',
    )!
    this.purpose = purpose
    this.worker = worker ?? null
    const limits = /-c (?:lock|statement)_timeout=\d+\s?/g
    const idle = /-c idle_in_transaction_session_timeout=\d+\s?/g
    const options = config.options ?? ''
    this.#lockMs = Math.min(...(options.match(limits) ?? []).map(msOf).filter((ms) => ms > 0), 10_000)
    this.#idleMs = (options.match(idle) ?? []).map(msOf).at(-1) ?? 0
    this.#settings = options.replaceAll(limits, '').replaceAll(idle, '').trim()
    this.connection = { stream: { destroy: () => this.lose() } }
    at.clients.add(this)
  }

  get _queryable(): boolean {
    return !this.#lost
  }

  /** For `pg.Pool`. */
  ref(): void {}
  unref(): void {}

  /** On the server; null once the server has ended the session. */
  get processId(): number | null {
    return this.#backend === null ? null : this.#at.backends.processIdOf(this.#backend)
  }

  connect(callback?: (error?: Error) => void): Promise<void> | undefined {
    const connected = this.#enqueue('connect', async () => {
      this.#backend = await this.#at.backends.take(this.#settings, this.#name)
      this.#isConnected = true
    })
    const giveUp = () => {
      if (this.actor.cutOffSince !== null) this.lose(new Error('timeout expired'))
    }
    const forget = this.#at.scheduler.after(CONNECT_MS, giveUp, this.actor)
    const done = connected.finally(forget)
    if (callback === undefined) return done
    done.then(() => callback(), callback)
    return undefined
  }

  get #name(): string | null {
    return this.worker === null ? null : `intake-sync ${this.purpose} worker ${this.worker}`
  }

  query(query: Query | Writable, values?: unknown[]): Promise<unknown> | Writable {
    if (typeof query !== 'string' && 'submit' in query)
      return this.#copy((query as unknown as { text: string }).text)
    const { text, label } = textOf(query as Query)
    const channel = /^listen "?(\w+)/.exec(text)?.[1]
    if (channel !== undefined)
      return this.#enqueue('listen', async () => {
        this.channels.add(channel)
        return NOTHING
      })
    const given = values ?? (query as { values?: unknown[] }).values ?? []
    if (/^select pg_notify/.test(text))
      return this.#enqueue('notify', async () => {
        const [to, payload] = given as string[]
        const tell = () => this.#at.notify(to!, payload ?? '')
        if (this.#backend?.status === 'T') this.#notices.push(tell)
        else tell()
        return NOTHING
      })
    // Time passes as the scheduler decides.
    if (/set_config\('statement_timeout'/.test(text)) return this.#enqueue('limits', async () => NOTHING)
    // Views for analysts are not simulated: the login may not create views.
    if (/insert into intake_ops\.classifications/.test(text))
      return Promise.reject(Object.assign(new Error('not simulated'), { code: '42501' }))
    const { backends, choice, scheduler } = this.#at
    if (text === 'begin') this.#dawdles = choice.chance(this.#at.dawdling())
    if (text === 'begin')
      return this.#statement(text, text, () => backends.begin(this.#backend!, scheduler.now()))
    if (/pg_terminate_backend\(pid\)/.test(text))
      return this.#statement(label, text, async (client) => {
        const { rows } = await client.query<{ pid: number }>(
          text.replace('pg_terminate_backend(pid)', 'pid'),
          given,
        )
        this.#at.terminate(rows.map(({ pid }) => pid))
        return NOTHING
      })
    return this.#statement(label, text, (client) => client.query(query as string, values as never))
  }

  end(callback?: () => void): Promise<void> | undefined {
    const done = this.#end()
    if (callback === undefined) return done
    done.then(callback, callback)
    return undefined
  }

  #end(): Promise<void> {
    this._ending = true
    if (this.#lost) return Promise.resolve()
    // As pg does: whoever waits for a statement waits no longer.
    if (this.#current !== null) {
      this.lose()
      return Promise.resolve()
    }
    return this.#enqueue('end', async () => {
      this.#close()
      await this.#giveBack()
    })
  }

  /** Ends the connection without notice; the server's side ends when the server notices. */
  lose(error = new Error('Connection terminated unexpectedly')): void {
    if (this.#lost) return
    this.#close()
    const { scheduler, choice } = this.#at
    const { actor } = this
    const current = this.#current
    const begun = current !== null && !current.pending.withdraw()
    if (actor.alive) current?.fail(error)
    // A sent statement may still be executed.
    const isSent = !begun && current?.execute != null && actor.cutOffSince === null
    const ghost = isSent && choice.chance(0.5) ? current : null
    const work = async () => {
      const backend = this.#backend
      if (backend !== null && begun && (await this.#at.backends.isBlocked(backend)))
        await this.#at.backends.cancel(backend)
      if (backend !== null && ghost !== null) {
        this.#at.backends.tell(backend, scheduler.now(), ghost.text)
        const late = ghost.execute!(backend.client).catch(() => {})
        while (!(await settled(late)))
          if (await this.#at.backends.isBlocked(backend)) await this.#at.backends.cancel(backend)
        await late
      }
      await this.#giveBack()
      this.#at.forsaken -= 1
    }
    this.#at.forsaken += 1
    const isDelayed = () =>
      actor.cutOffSince !== null && scheduler.now() < actor.cutOffSince + UNSEEN_MS * 1_000
    scheduler.call(null, `the server ends ${actor.name} ${this.purpose}`, work, { isDelayed })
    const wasConnected = this.#isConnected
    asActor(actor, () => {
      // As pg does: whoever connects hears of it there alone.
      if (wasConnected) this.emit('error', error)
      this.emit('end')
    })
  }

  /** The server ends the session; the client hears of it later, or with its next statement. */
  async endAtServer(error: Error): Promise<void> {
    const backend = this.#backend
    if (this.#ended !== null || this.#lost || backend === null) return
    const { scheduler, backends } = this.#at
    this.#ended = error
    scheduler.note(`the server ends a session: ${error.message}`)
    while (this.#running !== null && !(await settled(this.#running)))
      if (await backends.isBlocked(backend)) await backends.cancel(backend)
    await this.#giveBack()
    const hear = async () => this.lose(error)
    scheduler.call(this.actor, `${this.purpose}: hears that its session has ended`, hear, {
      isDelayed: this.#isCutOff,
    })
  }

  /** The server gets no answer from the client. Whoever executes a statement for it notices afterwards. */
  miss(): void {
    this.#isMissed = true
    if (this.#running !== null) return
    const error = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })
    const label = `the server misses ${this.actor.name} ${this.purpose}`
    this.#at.scheduler.call(null, label, () => this.endAtServer(error))
  }

  /** Its process has ended. */
  die(): void {
    this.removeAllListeners()
    this.on('error', () => {})
    this.lose()
  }

  hears(channel: string, payload: string): void {
    if (!this.channels.has(channel)) return
    const tell = async () => {
      if (this.#lost || this.#ended !== null) return
      asActor(this.actor, () => this.emit('notification', { channel, payload }))
    }
    this.#at.scheduler.call(this.actor, 'a notice arrives', tell, { isDelayed: this.#isCutOff })
  }

  readonly #isCutOff = () => this.actor.cutOffSince !== null

  #close(): void {
    this.#lost = true
    this.#stopIdling()
    this.#at.clients.delete(this)
  }

  async #giveBack(): Promise<void> {
    const backend = this.#backend
    this.#backend = null
    this.#stopIdling()
    this.#notices = []
    if (backend !== null) await this.#at.backends.release(backend)
  }

  #copy(text: string): Writable {
    const pieces: Buffer[] = []
    return new Writable({
      write(piece: Buffer, _encoding, done) {
        pieces.push(piece)
        done()
      },
      final: (done) => {
        this.#statement(shortOf(text), text, (client) => send(client, text, Buffer.concat(pieces))).then(
          () => done(),
          done,
        )
      },
    })
  }

  #statement(
    label: string,
    text: string,
    execute: (client: pg.Client) => Promise<unknown>,
  ): Promise<unknown> {
    const { choice, backends, scheduler } = this.#at
    return this.#enqueue(
      label,
      async () => {
        const backend = this.#backend!
        const fault = choice.chance(this.#at.faultiness()) ? choice.below(3) : 3
        if (fault === 0) {
          scheduler.note('the connection is lost before it')
          throw this.#cut()
        }
        if (fault === 1) {
          scheduler.note('it fails in passing')
          await backend.client.query(`do $$ begin raise exception 'planted' using errcode = '40P01'; end $$`)
        }
        backends.tell(backend, scheduler.now(), text)
        let isOver = false
        const timeout = limitWait(this.#at, backend, this.#lockMs, () => isOver)
        this.#stopIdling()
        try {
          const running = execute(backend.client)
          this.#running = running.then(
            () => {},
            () => {},
          )
          const result = await running.finally(() => {
            isOver = true
          })
          if (/\breturning\b/i.test(text) || !/\border by\b/i.test(text)) sortRows(result)
          if (fault === 2) {
            scheduler.note('the connection is lost after it')
            throw this.#cut()
          }
          if (/^commit/i.test(text)) for (const tell of this.#notices.splice(0)) tell()
          if (/^commit/i.test(text) || label === 'store events') this.#at.committed(this.actor)
          this.#noteDrained(text, label, result)
          this.#at.passed(this.actor, label, text)
          return result
        } catch (error) {
          if (timeout.fired) throw Object.assign(new Error('lock timeout'), { code: '55P03' })
          throw error
        } finally {
          timeout.stop()
          this.#running = null
          if (/^rollback/i.test(text)) this.#notices = []
          if (this.#backend === backend) this.#idle(backend)
          if (this.#isMissed && this.#ended === null) this.miss()
        }
      },
      execute,
      text,
    )
  }

  #idle({ status }: Backend): void {
    if (this.#idleMs === 0 || status === 'I') return
    const { scheduler } = this.#at
    const error = Object.assign(new Error('idle-in-transaction timeout'), { code: '25P03' })
    const end = () => void scheduler.call(null, 'a transaction was idle', () => this.endAtServer(error))
    this.#stopIdling = scheduler.after(this.#idleMs, end)
  }

  #noteDrained(text: string, label: string, result: unknown): void {
    if (label === 'drain take') {
      const teamIds = (result as pg.QueryResult<{ teamId: number }>).rows.map(({ teamId }) => teamId)
      this.#taken += teamIds.length
      if (teamIds.length > 0) this.#at.taken(this.actor, teamIds)
    } else if (/^(?:commit|rollback)/i.test(text)) {
      if (this.#taken > 0 && text === 'commit') this.#at.drained(this.#taken)
      this.#taken = 0
    }
  }

  #cut(error = new Error('Connection terminated unexpectedly')): Error {
    this.#current = null
    this.lose(error)
    return error
  }

  #enqueue<Result>(
    label: string,
    work: () => Promise<Result>,
    execute: Current['execute'] = null,
    text = '',
  ): Promise<Result> {
    const turn = this.#tail.then(
      () =>
        new Promise<Result>((resolve, reject) => {
          if (this.#lost)
            return reject(new Error('Client has encountered a connection error and is not queryable'))
          const run = async () => {
            if (this.#ended !== null) throw this.#cut(this.#ended)
            return await work()
          }
          const runAndTell = async () => {
            const tell = await run().then(
              (result) => () => resolve(result),
              (error: unknown) => () => reject(error),
            )
            this.#current = null
            return () => {
              if (!this.actor.alive) return
              if (this.#ended === null) tell()
              else reject(this.#ended)
            }
          }
          const isBlocked = async () =>
            this.#backend !== null && (await this.#at.backends.isBlocked(this.#backend))
          const named = `${this.purpose}: ${label}`
          const weight = this.#dawdles || this.#at.isDawdling(this.actor) ? DAWDLING : 1
          const options = { isBlocked, isDelayed: this.#isCutOff, weight }
          const pending = this.#at.scheduler.call(this.actor, named, runAndTell, options)
          this.#current = { pending, fail: reject, text, execute }
        }),
    )
    this.#tail = turn.catch(() => {})
    return turn
  }
}
