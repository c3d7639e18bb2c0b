/**
 * A TCP proxy between two parts of a test that cuts, delays, stalls, drops and truncates traffic on request.
 *
 * Invariant: by default every byte passes unchanged and in order; a fault applies to open connections as well as to new
 * ones; after `close` no connection is left.
 */
import net, { type AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export type Network =
  | { readonly kind: 'good' }
  /** Resets open connections, and new ones too. */
  | { readonly kind: 'away' }
  /** Nothing passes and nothing is reported, as when packets are dropped; delayed bytes pass later. */
  | { readonly kind: 'silent' }
  /** Delay of each piece, in milliseconds, in either direction. */
  | { readonly kind: 'slow'; readonly ms: number }
  /** Requests arrive; the connection is reset at the first byte of an answer. */
  | { readonly kind: 'answers lost' }
  /** Each connection ends after this many further bytes of answers, without an error. */
  | { readonly kind: 'answers cut'; readonly bytes: number }
  /** Each connection ends after this many further bytes of requests, without an error. */
  | { readonly kind: 'requests cut'; readonly bytes: number }

export interface TcpProxy extends AsyncDisposable {
  /** `url` with the host and port of this proxy. */
  through(url: string): string
  become(network: Network): void
  /** Connections accepted so far. */
  readonly accepted: number
  /** Connections that the proxy ended or refused. */
  readonly broken: number
}

/** A pair of sockets that looks like one connection to both ends. */
interface Line {
  readonly near: net.Socket
  readonly far: net.Socket
  asked: number
  answered: number
}

/** Connects to the host and port of `target`. */
export async function openProxy(target: string): Promise<TcpProxy> {
  const { hostname, port, protocol } = new URL(target)
  const address = { host: hostname, port: Number(port || (protocol.startsWith('postgres') ? 5432 : 80)) }
  const lines = new Set<Line>()
  let network: Network = { kind: 'good' }
  let accepted = 0
  let broken = 0
  let release = () => {}
  let open = Promise.resolve()

  const reset = (line: Line) => {
    if (lines.delete(line)) broken += 1
    line.near.resetAndDestroy()
    line.far.resetAndDestroy()
  }

  /** The part of `piece` that passes; null when the connection is reset at it. */
  const arriving = (line: Line, piece: Buffer, side: 'asked' | 'answered'): Buffer | null => {
    if (network.kind === 'answers lost' && side === 'answered') return null
    const limited = side === 'asked' ? 'requests cut' : 'answers cut'
    if (network.kind !== limited) return piece
    const part = piece.subarray(0, Math.max(network.bytes - line[side], 0))
    line[side] += part.length
    return part
  }

  const carry = (line: Line, from: net.Socket, to: net.Socket, side: 'asked' | 'answered') => {
    let way = Promise.resolve()
    from.on('data', (piece) => {
      const due = network.kind === 'slow' ? performance.now() + network.ms : 0
      way = way.then(async () => {
        await open
        // A timer may come a little early.
        while (due > performance.now()) await sleep(due - performance.now())
        const part = arriving(line, piece, side)
        if (part === null) return reset(line)
        if (part.length > 0 && to.writable) to.write(part)
        if (part.length === piece.length) return
        if (lines.delete(line)) broken += 1
        for (const socket of [line.near, line.far]) socket.end()
      })
    })
    from.once('end', () => {
      way = way.then(async () => {
        await open
        to.end()
      })
    })
    from.on('error', () => to.destroy())
    from.once('close', () => {
      lines.delete(line)
      void way.then(() => to.end())
    })
  }

  const server = net.createServer({ allowHalfOpen: true, noDelay: true }, (near) => {
    accepted += 1
    if (network.kind === 'away') {
      broken += 1
      near.on('error', () => {}).resetAndDestroy()
      return
    }
    const far = net.connect({ ...address, allowHalfOpen: true, noDelay: true })
    const line = { near, far, asked: 0, answered: 0 }
    lines.add(line)
    carry(line, near, far, 'asked')
    carry(line, far, near, 'answered')
  })
  await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening))
  const own = (server.address() as AddressInfo).port

  return {
    through(url) {
      const changed = new URL(url)
      changed.host = `127.0.0.1:${own}`
      return changed.href
    },
    become(next) {
      network = next
      release()
      release = () => {}
      open = Promise.resolve()
      if (next.kind === 'silent') {
        open = new Promise((done) => {
          release = done
        })
      }
      for (const line of lines) Object.assign(line, { asked: 0, answered: 0 })
      if (next.kind === 'away') for (const line of [...lines]) reset(line)
    },
    get accepted() {
      return accepted
    },
    get broken() {
      return broken
    },
    [Symbol.asyncDispose]: async () => {
      release()
      for (const line of [...lines]) reset(line)
      await new Promise((closed) => server.close(closed))
    },
  }
}
