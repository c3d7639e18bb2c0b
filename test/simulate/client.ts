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
import { DAWDLING, type SimulatedWarehouse } from './warehouse.ts'

const NOTHING = { command: '', rowCount: 0, rows: [] }

interface Current {
  readonly pending: Pending
  readonly fail: (error: Error) => void
  readonly text: string
  readonly execute: ((client: pg.Client) => Promise<unknown>) | null
}

export class SimulatedClient extends EventEmitter {
  readonly actor: Actor
  readonly purpose: string
  readonly connection: { stream: { destroy: () => void } }
  listening = false
  readonly #at: SimulatedWarehouse
  readonly #settings: string
  readonly #lockMs: number
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
    this.purpose = (config.application_name ?? '').replace('intake-sync ', '')
    const limits = /-c (?:lock|statement)_timeout=\d+\s?/g
    const options = config.options ?? ''
    this.#lockMs = Math.min(...(options.match(limits) ?? []).map(msOf).filter((ms) => ms > 0), 10_000)
    this.#settings = options.replaceAll(limits, '').trim()
    this.connection = { stream: { destroy: () => this.lose() } }
    at.clients.add(this)
  }

  connect(): Promise<void> {
    return this.#enqueue('connect', async () => {
      this.#backend = await this.#at.backends.take(this.#settings)
    })
  }

  query(query: Query | Writable, values?: unknown[]): Promise<unknown> | Writable {
    if (typeof query !== 'string' && 'submit' in query)
      return this.#copy((query as unknown as { text: string }).text)
    const { text, label } = textOf(query as Query)
    if (/^listen /.test(text))
      return this.#enqueue('listen', async () => {
        this.listening = true
        return NOTHING
      })
    if (/pg_notify/.test(text))
      return this.#enqueue('notify', async () => {
        this.#at.notify()
        return NOTHING
      })
    // Views for analysts are not simulated: the login may not create views.
    if (/insert into intake_ops\.classifications/.test(text))
      return Promise.reject(Object.assign(new Error('not simulated'), { code: '42501' }))
    const { backends, choice, scheduler } = this.#at
    if (text === 'begin') this.#dawdles = choice.chance(this.#at.dawdling())
    if (text === 'begin')
      return this.#statement(text, text, () => backends.begin(this.#backend!, scheduler.now()))
    return this.#statement(label, text, (client) => client.query(query as string, values as never))
  }

  end(): Promise<void> {
    if (this.#lost) return Promise.resolve()
    return this.#enqueue('end', async () => {
      this.#close()
      await this.#giveBack()
    })
  }

  /** Ends the connection without notice; the server's side ends when the server notices. */
  lose(): void {
    if (this.#lost) return
    this.#close()
    const { scheduler, choice } = this.#at
    const current = this.#current
    const begun = current !== null && !current.pending.withdraw()
    const error = new Error('Connection terminated unexpectedly')
    if (this.actor.alive) current?.fail(error)
    // A sent statement may still be executed.
    const ghost = !begun && current?.execute != null && choice.chance(0.5) ? current : null
    this.#at.forsaken += 1
    scheduler.call(null, `the server ends ${this.actor.name} ${this.purpose}`, async () => {
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
    })
    this.emit('error', error)
    this.emit('end')
  }

  /** Its process has ended. */
  die(): void {
    this.removeAllListeners()
    this.on('error', () => {})
    this.lose()
  }

  #close(): void {
    this.#lost = true
    this.#at.clients.delete(this)
  }

  async #giveBack(): Promise<void> {
    const backend = this.#backend
    this.#backend = null
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
        const timeout = limitWait(this.#at, backend, this.#lockMs)
        try {
          const result = await execute(backend.client)
          if (/\breturning\b/i.test(text) || !/\border by\b/i.test(text)) sortRows(result)
          if (fault === 2) {
            scheduler.note('the connection is lost after it')
            throw this.#cut()
          }
          if (/^commit/i.test(text) || label === 'store events') this.#at.committed(this.actor)
          this.#noteDrained(text, label, result)
          return result
        } catch (error) {
          if (timeout.fired) throw Object.assign(new Error('lock timeout'), { code: '55P03' })
          throw error
        } finally {
          timeout.stop()
        }
      },
      execute,
      text,
    )
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

  #cut(): Error {
    const error = new Error('Connection terminated unexpectedly')
    this.#current = null
    this.lose()
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
            const tell = await work().then(
              (result) => () => resolve(result),
              (error: unknown) => () => reject(error),
            )
            this.#current = null
            return () => {
              if (this.actor.alive) tell()
            }
          }
          const isBlocked = async () =>
            this.#backend !== null && (await this.#at.backends.isBlocked(this.#backend))
          const named = `${this.purpose}: ${label}`
          const weight = this.#dawdles || this.#at.isDawdling(this.actor) ? DAWDLING : 1
          const pending = this.#at.scheduler.call(this.actor, named, run, isBlocked, weight)
          this.#current = { pending, fail: reject, text, execute }
        }),
    )
    this.#tail = turn.catch(() => {})
    return turn
  }
}
