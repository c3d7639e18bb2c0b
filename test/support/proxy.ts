/**
 * A network between two of ours: a TCP proxy that cuts, delays, holds, loses and truncates as it is told.
 *
 * Invariant: until it is told otherwise every byte passes unchanged and in order; what it is told holds for the
 * connections that are open as for those that come; after `close` none is left.
 */
import net, { type AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export type Network =
  | { readonly kind: 'good' }
  /** Connections are reset, and new ones too. */
  | { readonly kind: 'away' }
  /** Nothing passes and nothing is said, as where packets are dropped; what was sent passes later. */
  | { readonly kind: 'silent' }
  /** Each piece is on its way so long, in either direction. */
  | { readonly kind: 'slow'; readonly ms: number }
  /** What is asked arrives; at the first byte of an answer the connection is reset. */
  | { readonly kind: 'answers lost' }
  /** Each connection ends after so many further bytes of answers, without an error. */
  | { readonly kind: 'answers cut'; readonly bytes: number }
  /** Each connection ends after so many further bytes of what is asked, without an error. */
  | { readonly kind: 'requests cut'; readonly bytes: number }

export interface TcpProxy extends AsyncDisposable {
  /** `url` with this proxy in the place of its host and port. */
  through(url: string): string
  become(network: Network): void
  /** Connections that were accepted so far. */
  readonly accepted: number
  /** Connections that it ended, or refused. */
  readonly broken: number
}

/** A pair of sockets, one connection to the eyes of both ends. */
interface Line {
  readonly near: net.Socket
  readonly far: net.Socket
  asked: number
  answered: number
}

/** To the host and port of `target`. */
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

  /** What of `piece` arrives; null when the connection is reset at it. */
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
        if (due > 0) await sleep(due - performance.now())
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
