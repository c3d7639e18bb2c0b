/**
 * `node --import tsx test/bench/emulator-webhooks.ts [events]`: how fast the emulator delivers webhooks to a receiver in
 * the same process. Shows whether the emulator limits other benchmarks; it has no aim of its own.
 */
import { startEmulator } from '../../src/emulator/server.ts'
import { callerOf } from '../emulator/caller.ts'
import { startReceiver } from '../emulator/receiver.ts'

const count = Number(process.argv[2] ?? 2000)
await using emulator = await startEmulator({ port: 0, patients: 100 })
await using receiver = await startReceiver()
await callerOf(emulator).send('POST', '/v2/webhooks', { target_url: receiver.url })
for (let round = 1; round <= 3; round += 1) {
  const start = performance.now()
  for (let at = 0; at < count; at += 1) emulator.control.createPatient({ first_name: 'A', last_name: 'B' })
  await emulator.control.webhooks().idle()
  const rate = Math.round(count / ((performance.now() - start) / 1000))
  process.stdout.write(`round ${round}: ${count} events, ${rate} a second\n`)
}
