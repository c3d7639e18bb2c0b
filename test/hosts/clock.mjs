/**
 * Loaded into a process before everything else (`node --import`): its clock is `CLOCK_AHEAD_MS` ahead from its start.
 * SIGUSR2 sets it ten minutes ahead while it runs: `Date` jumps, as for a process whose host's clock is set; monotonic
 * time does not.
 */
const RealDate = Date
const atStart = Number(process.env.CLOCK_AHEAD_MS ?? 0)
const { timeOrigin } = performance
let ahead = atStart

const now = () => RealDate.now() + ahead
globalThis.Date = new Proxy(RealDate, {
  construct: (target, words, made) => Reflect.construct(target, words.length === 0 ? [now()] : words, made),
  apply: () => new RealDate(now()).toString(),
  get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
})
Object.defineProperty(performance, 'timeOrigin', { get: () => timeOrigin + atStart })
process.on('SIGUSR2', () => {
  ahead += 600_000
})
