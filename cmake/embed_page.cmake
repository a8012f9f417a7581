# SPDX-License-Identifier: BSD-3-Clause
# Writes PAGE as a C++ source to OUTPUT, with a link to DOCS_URL if there is one, and with a
# Content-Security-Policy that allows only the page's own script and style, by their hashes in
# base64.

function(cpprun_csp_hash text result)
  set(letters ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/)
  string(SHA256 hex "${text}")
  set(base64 "")
  # 32 bytes are ten groups of three bytes, and two more: 16 bits, padded with two bits.
  foreach(group RANGE 0 10)
    math(EXPR at "${group} * 6")
    if(group EQUAL 10)
      string(SUBSTRING "${hex}" ${at} 4 digits)
      math(EXPR bits "0x${digits} << 2")
      set(shifts 12 6 0)
    else()
      string(SUBSTRING "${hex}" ${at} 6 digits)
      math(EXPR bits "0x${digits}")
      set(shifts 18 12 6 0)
    endif()
    foreach(shift IN LISTS shifts)
      math(EXPR index "(${bits} >> ${shift}) & 63")
      string(SUBSTRING "${letters}" ${index} 1 letter)
      string(APPEND base64 "${letter}")
    endforeach()
  endforeach()
  set(${result} "'sha256-${base64}='" PARENT_SCOPE)
endfunction()

# The text between the first <tag> and </tag> of the page.
function(cpprun_content_of page tag result)
  string(LENGTH "<${tag}>" opening)
  string(FIND "${page}" "<${tag}>" begin)
  string(FIND "${page}" "</${tag}>" end)
  if(begin EQUAL -1 OR end EQUAL -1)
    message(FATAL_ERROR "${PAGE} has no <${tag}>")
  endif()
  math(EXPR begin "${begin} + ${opening}")
  math(EXPR length "${end} - ${begin}")
  string(SUBSTRING "${page}" ${begin} ${length} content)
  set(${result} "${content}" PARENT_SCOPE)
endfunction()

file(READ "${PAGE}" page)
# Removes the comments of the script and the indentation.
string(REGEX REPLACE "\n *//[^\n]*" "" page "${page}")
string(REGEX REPLACE "\n +" "\n" page "${page}")
if(DOCS_URL)
  set(docs "<a href=\"${DOCS_URL}\" rel=\"noreferrer\">documentation</a> ")
  string(APPEND docs "<span class=\"live\">&middot; </span>")
endif()
string(REPLACE "<!--docs-->" "${docs}" page "${page}")
cpprun_content_of("${page}" style style)
cpprun_content_of("${page}" script script)
cpprun_csp_hash("${style}" style_hash)
cpprun_csp_hash("${script}" script_hash)
set(policy "default-src 'none'; script-src ${script_hash}; style-src ${style_hash}; ")
string(APPEND policy "connect-src 'self'; base-uri 'none'; form-action 'none'; ")
string(APPEND policy "frame-ancestors 'none'")
file(WRITE "${OUTPUT}" "#include \"rendezvous/status/page.h\"
const std::string_view cpprun::page_html = R\"PAGE(${page})PAGE\";
const std::string_view cpprun::page_policy = \"${policy}\";
")
