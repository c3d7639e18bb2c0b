/** The name of the form that a record is about, as the record says it: beside the form or in it. */
import { isObject } from '../../core/json.ts'
import { type Column, text } from '../stream.ts'
import { readCell } from './cell.ts'

export const formName: Column = {
  ...text('form_name'),
  read({ form_name, form }, _path, problems) {
    const own = readCell('text', form_name, 'form_name', problems)
    return own === null && isObject(form) ? readCell('text', form.name, 'form.name', problems) : own
  },
}
