/** What states of screens have in common: texts that have characters of HTML, times, and who looks. */

export const odd = (text: string) => `<${text}> & "it's"`
export const at = (day: number) => `2026-01-0${day}T03:0${day}:00Z`

export const north = odd('north')
export const question = {
  ...{ team: north, form_id: odd('f'), form: odd('Form'), question_id: odd('q'), question_text: odd('Why') },
  ...{ question_type: 'number', shows: 'nothing', decided_by: null as string | null, waits: false },
}
export const figures = {
  missing: 1,
  extra: 20,
  different: 3_000,
  repaired: 4,
  source: 5_000,
  warehouse: 6_000,
}
export interface ViewState {
  readonly data: object
  readonly page?: object
}

export const viewer = { visitor: { login: 'kim', role: 'viewer' } }
export const steward = { visitor: { login: 'joan', role: 'steward' } }

/** By view: each state by its name. */
export type States = Readonly<Record<string, Readonly<Record<string, ViewState>>>>
