/** Uploads of one team that are under way at the same time. */
import { expect, it } from 'vitest'
import { formOf, startUploading } from './uploading.ts'

it('an upload goes on side by side with others, each by its own time, whatever becomes of its patients', async () => {
  await using service = await startUploading()
  const { control } = service.emulator
  const file = (name: string, bad: string) =>
    formOf(`first_name,last_name\n${`${name},B\n`.repeat(249)}${bad}`)
  const ids = [(await service.post(file('C', 'C,\n'))).body.id]
  control.advance(20)
  ids.push((await service.post(file('D', ',D\n'))).body.id)
  const rows: number[][] = []
  for (const wait of [29, 1, 20, 30, 20, 1000]) {
    control.advance(wait)
    const all = await Promise.all(ids.map((id) => service.progressOf(id)))
    rows.push(all.map(({ processed_rows }) => processed_rows))
    if (wait === 1) for (const { id } of control.world().patients.slice(3, 2)) control.deletePatient(id)
  }
  expect(rows).toEqual([
    [0, 0],
    [200, 0],
    [200, 200],
    [250, 200],
    [250, 250],
    [250, 250],
  ])
  const created = (await service.created()).map((one) => one.first_name)
  expect(created).toEqual([198, 200, 49, 49].flatMap((count, at) => Array(count).fill('CD'[at % 2])))
  for (const [at, row] of [
    ['last_name', 250],
    ['first_name', 250],
  ].entries())
    expect((await service.progressOf(ids[at])).errors).toEqual([
      { row: row[1], detail: `${row[0]}: This field is required.` },
    ])
})
