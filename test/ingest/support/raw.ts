/** Raw HTTP over one connection, for requests that no client would send. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { SIGNATURE_HEADER, sign } from '../../../src/core/signature.ts'
import { SECRET } from './ingest.ts'

export interface RawConnection extends AsyncDisposable {
  readonly socket: Socket
  write(text: string | Buffer): void
  /** Everything received so far. */
  readonly received: string
  /** Resolves after `count` complete answers, with their status lines and bodies. */
  answers(count: number): Promise<readonly RawAnswer[]>
  /** Resolves when the other side has closed the connection. */
  readonly ended: Promise<void>
}

export interface RawAnswer {
  readonly status: number
  readonly head: string
  readonly body: string
}

/** `from`: an address of this machine, as 127.0.0.2. */
export async function openRaw(url: string, from = '127.0.0.1'): Promise<RawConnection> {
  const { hostname, port } = new URL(url)
  const socket = connect({ port: Number(port), host: hostname, localAddress: from })
  socket.on('error', () => {})
  await once(socket, 'connect')
  let received = ''
  const waiting: (() => void)[] = []
  const wake = () => {
    for (const look of [...waiting]) look()
  }
  socket.on('data', (part) => {
    received += part.toString('latin1')
    wake()
  })
  const ended = new Promise<void>((resolve) => {
    socket.once('close', () => {
      wake()
      resolve()
    })
    socket.once('end', () => socket.end())
  })
  return {
    socket,
    ended,
    get received() {
      return received
    },
    write: (text) => void socket.write(text),
    answers: (count) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const whole = answersIn(received)
          if (whole.length < count && !socket.destroyed) return
          waiting.splice(waiting.indexOf(look), 1)
          if (whole.length < count) reject(new Error(`${whole.length} of ${count} answers came`))
          else resolve(whole)
        }
        waiting.push(look)
        look()
      }),
    async [Symbol.asyncDispose]() {
      socket.destroy()
      await ended
    },
  }
}

function answersIn(text: string): RawAnswer[] {
  const answers: RawAnswer[] = []
  for (let rest = text; ; ) {
    const end = rest.indexOf('\r\n\r\n')
    if (end < 0) return answers
    const head = rest.slice(0, end)
    const length = Number(/content-length: (\d+)/i.exec(head)?.[1] ?? 0)
    if (head.startsWith('HTTP/1.1 100')) {
      rest = rest.slice(end + 4)
      continue
    }
    if (rest.length < end + 4 + length) return answers
    const body = rest.slice(end + 4, end + 4 + length)
    answers.push({ status: Number(head.slice(9, 12)), head, body })
    rest = rest.slice(end + 4 + length)
  }
}

/** The head of a signed POST; `more` are further header lines. */
export function headOf(body: Buffer, more: readonly string[] = [`Content-Length: ${body.length}`]): string {
  const lines = [
    'POST /webhooks HTTP/1.1',
    'Host: here',
    `${SIGNATURE_HEADER}: ${sign(body, SECRET)}`,
    ...more,
  ]
  return `${lines.join('\r\n')}\r\n\r\n`
}

export function chunksOf(body: Buffer, size: number): string {
  let text = ''
  for (let at = 0; at < body.length; at += size) {
    const part = body.subarray(at, at + size)
    text += `${part.length.toString(16)}\r\n${part.toString('latin1')}\r\n`
  }
  return `${text}0\r\n\r\n`
}
